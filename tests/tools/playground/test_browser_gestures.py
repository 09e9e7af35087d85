"""Drawing with mouse, keyboard and fingers: one journey on a desktop, and one on a phone."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from playwright.sync_api import Browser, CDPSession, expect

from tests.tools.playground.pages import SIZE, Opened, opened

pytestmark = pytest.mark.browser

WALL, DOOR = 1, 4  # ids of classes; the paper is sky, 0
SMALLEST = 44  # pixels of the screen, for fingers


def labels(page: Opened, folder: Path) -> np.ndarray:
    return page.saved(folder)[0]


def test_a_journey_over_the_drawing_tools(blank: Opened, tmp_path: Path) -> None:
    for step in (draw_shapes, erase_and_pick, use_the_keyboard, zoom_and_move, draw_polygons, change_the_size):
        blank.clear()
        step(blank, tmp_path / step.__name__)


def draw_shapes(page: Opened, folder: Path) -> None:
    page.choose("door")
    for tool, least, most in (("Line", 16 * 4, 16 * 9), ("Rectangle", 16 * 6, 16 * 6), ("Fill", SIZE**2, SIZE**2)):
        page.choose(tool)
        page.drag((5, 6), (20, 11))
        drawn, instances = page.saved(folder / tool)
        assert least <= (drawn == DOOR).sum() <= most
        assert len(np.unique(instances[drawn == DOOR])) == 1
        page.click("undo")
    page.choose("wall")
    page.choose("Rectangle")
    page.drag((10, 10), (29, 19))
    page.drag((30, 10), (39, 19))  # connected with the first: one instance
    _, joined = page.saved(folder / "joined")
    page.more()
    page["instances"].select_option("stroke")
    page.drag((40, 10), (49, 19))  # an instance of its own
    _, apart = page.saved(folder / "apart")
    page["instances"].select_option(index=0)
    page["instances-file"].set_input_files(folder / "joined" / "source_instances.png")
    page.wait_for_file()
    assert np.array_equal(page.saved(folder / "opened")[1], joined)  # both are numbered in the order of their pixels
    assert len(np.unique(joined[10:20, 10:40])) == 1
    assert len(np.unique(apart[10:20, 10:50])) == 2
    page.click("undo")
    page.choose("sky")
    page.drag((30, 0), (31, 60))  # a stroke that cuts an instance makes two of it, and joins the sky
    cut, instances = page.saved(folder / "cut")
    assert [len(np.unique(instances[cut == value])) for value in (WALL, 0)] == [3, 1]
    page.more()


def erase_and_pick(page: Opened, folder: Path) -> None:
    chosen = page.page.locator("#values :checked")
    page.page.evaluate("document.addEventListener('contextmenu', event => (window.hasMenu = !event.defaultPrevented))")
    page.choose("door")
    page.choose("Rectangle")
    page.drag((5, 5), (50, 50))
    page.drag((40, 40), (45, 45), button="right")
    page.choose("Eraser")
    page.drag((10, 10), (10, 20))
    after = labels(page, folder)
    assert (after[40:46, 40:46] == 0).all()
    assert (after[10:21, 10] == 0).all()
    assert after[6, 6] == DOOR
    assert not page.page.evaluate("window.hasMenu")
    page.choose("Rectangle")
    before = page.pixels("source")
    for way in ("Alt", "Pick"):
        page.choose("wall")
        if way == "Alt":
            page.page.keyboard.down("Alt")
        else:
            page.choose("Pick")
        page.drag((6, 6), (8, 8))
        page.page.keyboard.up("Alt")
        expect(chosen).to_have_value(str(DOOR))
        tool = "rectangle" if way == "Alt" else "brush"
        expect(page.page.locator(f"[name=tool][value={tool}]")).to_be_checked()
    assert np.array_equal(page.pixels("source"), before)  # nothing is drawn
    page.keys("1", "0")
    expect(chosen).to_have_value("10")
    page.page.wait_for_timeout(1100)  # after a second, digits begin a new number
    page.keys("9", "2")  # there is no class 92
    expect(chosen).to_have_value("2")


def use_the_keyboard(page: Opened, folder: Path) -> None:
    page.choose("door")
    page["source"].focus()
    page.keys("r", "Space", *["Shift+ArrowRight"] * 4, "ArrowDown", "Space")  # the cursor begins in the centre
    page.wait()
    rows, columns = (labels(page, folder / "rectangle") == DOOR).nonzero()
    assert (rows.min(), rows.max(), columns.min(), columns.max()) == (32, 33, 32, 36)
    page.clear()
    page["size"].press("Home")  # the slider's end
    page["source"].focus()
    page.keys("b", "+", "+", "=", "+", "-", "+", *["ArrowRight"] * 21, *["ArrowUp"], "Space")
    page.wait()
    frame, (x, y) = page.box("source-stage"), page.place(57, 32)
    assert frame["x"] < x < frame["x"] + frame["width"]
    assert frame["y"] < y < frame["y"] + frame["height"]
    rows, columns = (labels(page, folder / "pixel") == DOOR).nonzero()
    assert (*rows, *columns) == (32, 57)


def zoom_and_move(page: Opened, folder: Path) -> None:
    mouse, width = page.page.mouse, page.box("source")["width"]
    left, top = page.place(-0.5, -0.5)  # the picture's corner
    x, y = (round(place) for place in page.place(40, 13))
    mouse.move(x, y)
    for _ in range(4):
        mouse.wheel(0, -200)
    expect(page["fit"]).to_be_enabled()
    growth = page.box("source")["width"] / width
    assert growth > 3
    assert np.allclose(page.place(-0.5, -0.5), (x - growth * (x - left), y - growth * (y - top)), atol=0.5)
    assert page.box("result")["width"] == pytest.approx(growth * width, rel=0.02)  # the translation, too
    page.choose("door")
    page.drag((40, 13), (43, 13))
    rows, columns = (labels(page, folder) == DOOR).nonzero()
    assert (set(rows), list(columns)) == ({13}, [40, 41, 42, 43])
    page.click("fit")
    mouse.move(x, y)
    mouse.wheel(0, 400)
    assert page.box("source")["width"] == pytest.approx(width)  # no smaller than its frame
    before = page.pixels("source")
    for by in ("middle", "space", "translation"):
        for _ in range(3):
            page.click("zoom-in")
        box, middle = page.box("result-stage"), page.place(32, 32)
        start = (box["x"] + box["width"] / 2, box["y"] + box["height"] / 2) if by == "translation" else middle
        mouse.move(*start)
        if by == "space":
            page.page.keyboard.down("Space")
        mouse.down(button="middle" if by == "middle" else "left")
        mouse.move(start[0] + 30, start[1] - 20)
        mouse.up(button="middle" if by == "middle" else "left")
        page.page.keyboard.up("Space")
        assert np.allclose(page.place(32, 32), (middle[0] + 30, middle[1] - 20), atol=1), by
        page.keys("Home")
        expect(page["fit"]).to_be_disabled()
    page.wait()
    assert np.array_equal(page.pixels("source"), before)  # nothing is drawn


def draw_polygons(page: Opened, folder: Path) -> None:
    mouse = page.page.mouse
    page.choose("door")
    page.keys("p")
    for way in ("double click", "first corner"):
        for corner in ((10, 10), (40, 10), (40, 30)):
            mouse.click(*page.place(*corner))
        if way == "double click":
            mouse.dblclick(*page.place(10, 30))
        else:
            mouse.click(*page.place(10, 30))
            expect(page["corner"]).to_be_visible()
            mouse.click(*page.place(10, 10))
        expect(page["corner"]).to_be_hidden()
        found = labels(page, folder / way)
        assert (found[10:31, 10:41] == DOOR).all()
        assert (found == DOOR).sum() == 21 * 31
        page.click("undo")
    page.choose("wall")
    for ending in ("Escape", "Control+z"):
        for corner in ((10, 10), (40, 10), (60, 60)):
            mouse.click(*page.place(*corner))
        page.keys(ending)
    mouse.click(*page.place(10, 40))
    page.keys("Enter")
    page.wait()
    found = labels(page, folder)
    assert (found[12, 12], found[50, 50]) == (WALL, 0)
    assert 31 * 31 / 2 - 20 < (found == WALL).sum() < 31 * 31 / 2 + 31


def change_the_size(page: Opened, _folder: Path) -> None:
    page.more()
    for columns, rows in (("", "-5"), ("4096", "4096")):  # number fields show the number that is used
        page["width"].fill(columns)
        page["height"].fill(rows)
        page.click("new")
        expect(page["source"]).to_have_attribute("width", str(SIZE))
        expect(page["source"]).to_have_attribute("height", "1")
    page.assert_says("4096x4096: a picture has at most 8388608 pixels")
    page.click("undo")
    page.more()
    page.wait()
    page["slider"].fill("40")  # the slider lays the source over the translation
    assert page["over"].evaluate("over => over.style.clipPath") == "inset(0px 60% 0px 0px)"
    assert np.array_equal(page.pixels("over"), page.pixels("source"))


class Fingers:
    """Touches on a page, by names."""

    def __init__(self, page: Opened) -> None:
        self.page = page
        self.session: CDPSession = page.page.context.new_cdp_session(page.page)
        self.down: set[str] = set()

    def put(self, **fingers: tuple[float, float]) -> None:
        """Put fingers on pixels of the picture, or move them there. The other fingers are lifted."""
        kind = "touchEnd" if not fingers else "touchMove" if fingers.keys() == self.down else "touchStart"
        points = [
            {"x": x, "y": y, "id": number}
            for number, (x, y) in enumerate(self.page.place(*pixel) for pixel in fingers.values())
        ]
        self.down = set(fingers)
        self.session.send("Input.dispatchTouchEvent", {"type": kind, "touchPoints": points})


@pytest.fixture
def phone(browser: Browser, facades_url: str) -> Iterator[Opened]:
    with opened(browser, facades_url, is_phone=True) as page:
        page.clear()
        yield page


def middle_in_frame(page: Opened) -> tuple[float, float]:
    """Return how far the picture's middle is from its frame's: texts above may move the frame in the page."""
    box, (left, top) = page.box("source-stage"), page.place(31.5, 31.5)
    return left - box["x"] - box["width"] / 2, top - box["y"] - box["height"] / 2


def test_a_finger_draws_and_two_together_zoom(phone: Opened) -> None:
    assert phone.page.evaluate("document.documentElement.scrollWidth") == 360
    before, width = phone.pixels("source"), phone.box("source")["width"]
    phone.page.get_by_text("door", exact=True).tap()
    fingers = Fingers(phone)
    fingers.put(one=(10, 10))
    fingers.put(one=(14, 12))
    phone.page.wait_for_timeout(400)
    fingers.put(one=(14, 12), late=(50, 50))
    fingers.put(one=(18, 12), late=(54, 50))
    fingers.put()
    phone.wait()
    drawn = phone.pixels("source")
    painted = (drawn != before).any(-1)
    assert painted[11, 14]
    assert not painted[20:].any()  # a finger that comes later draws nothing
    assert phone.box("source")["width"] == pytest.approx(width)
    middle = middle_in_frame(phone)
    fingers.put(one=(24, 24), two=(39, 39))
    fingers.put(one=(16, 16), two=(47, 47))
    fingers.put()
    phone.wait()
    assert phone.box("source")["width"] == pytest.approx(2 * width, rel=0.1)
    assert np.allclose(middle_in_frame(phone), middle, atol=4)
    assert np.array_equal(phone.pixels("source"), drawn)  # the first of them has begun no stroke

    phone.more()  # every control is large enough for fingers
    sizes = phone.page.evaluate(
        """() => [...document.querySelectorAll("button, select, summary, input, #tools label, #values label")]
            .filter(element => element.checkVisibility() && element.type !== "radio")
            .map(element => [element.id || element.textContent, element.getBoundingClientRect()])
            .map(([name, {width, height}]) => [name, Math.round(width), Math.round(height)])"""
    )
    assert len(sizes) > 30
    assert [size for size in sizes if min(size[1:]) < SMALLEST] == []
