"""Drawing with mouse, keyboard and fingers: tools, instances, zoom, polygons."""

from collections.abc import Iterator
from io import BytesIO
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from playwright.sync_api import Browser, CDPSession, Locator, expect

from tests.tools.playground.pages import SIZE, Opened, opened

pytestmark = pytest.mark.browser

WALL, DOOR = 1, 4  # ids of classes; the paper is sky, 0
SMALLEST = 44  # pixels of the screen, for fingers


def labels(page: Opened, folder: Path) -> np.ndarray:
    return page.saved(folder)[0]


def screenshot(element: Locator) -> np.ndarray:
    return np.asarray(Image.open(BytesIO(element.screenshot())).convert("RGB")).astype(int)


def test_shapes_have_exact_ids_and_instances(blank: Opened, tmp_path: Path) -> None:
    blank.choose("door")
    for tool, least, most in (("Line", 16 * 4, 16 * 9), ("Rectangle", 16 * 6, 16 * 6), ("Fill", SIZE**2, SIZE**2)):
        blank.choose(tool)
        blank.drag((5, 6), (20, 11))
        drawn, instances = blank.saved(tmp_path / tool)
        door = drawn == DOOR
        assert least <= door.sum() <= most
        assert set(np.unique(drawn)) <= {0, DOOR}
        assert len(np.unique(instances[door])) == 1
        assert tool == "Fill" or instances[door][0] not in instances[~door]
        blank.click("undo")
    blank.choose("wall")
    blank.choose("Rectangle")
    blank.drag((10, 10), (29, 19))
    blank.drag((30, 10), (39, 19))  # connected with the first: one instance
    _, joined = blank.saved(tmp_path / "joined")
    blank.more()
    blank["instances"].select_option("stroke")
    blank.drag((40, 10), (49, 19))  # an instance of its own
    _, apart = blank.saved(tmp_path / "apart")
    blank["instances"].select_option(index=0)
    blank["instances-file"].set_input_files(tmp_path / "joined" / "source_instances.png")
    blank.wait_for_file()
    _, opened_again = blank.saved(tmp_path / "opened")
    assert joined.dtype in (np.uint16, np.int32)
    assert len(np.unique(joined[10:20, 10:40])) == 1
    assert len(np.unique(apart[10:20, 10:50])) == 2
    assert np.array_equal(opened_again, joined)  # both are numbered in the order of their pixels
    blank.click("undo")
    blank.choose("sky")
    blank.drag((30, 0), (31, 60))  # a stroke that cuts an instance makes two of it, and joins the sky
    cut, instances = blank.saved(tmp_path / "cut")
    assert len(np.unique(instances[15, 10:30])) == len(np.unique(instances[15, 32:40])) == 1
    assert len(np.unique(instances[cut == WALL])) == 3
    assert len(np.unique(instances[cut == 0])) == 1


def test_other_buttons_and_keys_erase_pick_and_choose(blank: Opened, tmp_path: Path) -> None:
    chosen = blank.page.locator("#values :checked")
    blank["source"].evaluate(
        """canvas => document.addEventListener("contextmenu", event => (window.hasMenu = !event.defaultPrevented))"""
    )
    blank.choose("door")
    blank.choose("Rectangle")
    blank.drag((5, 5), (50, 50))
    blank.drag((40, 40), (45, 45), button="right")
    blank.choose("Brush")
    blank.drag((20, 20), (30, 30), button="right")
    blank.choose("Eraser")
    blank.drag((10, 10), (10, 20))
    after = labels(blank, tmp_path / "eraser")
    assert (after[40:46, 40:46] == 0).all()
    assert (after[[20, 30], [20, 30]] == 0).all()
    assert (after[10:21, 10] == 0).all()
    assert after[21, 29] == after[6, 6] == DOOR
    assert not blank.page.evaluate("() => window.hasMenu")
    expect(chosen).to_have_value(str(DOOR))
    blank.choose("Rectangle")
    blank.choose("wall")
    before = blank.pixels("source")
    blank.page.keyboard.down("Alt")
    blank.drag((6, 6), (30, 30))
    blank.page.keyboard.up("Alt")
    expect(chosen).to_have_value(str(DOOR))
    expect(blank.page.locator("[name=tool][value=rectangle]")).to_be_checked()
    blank.choose("wall")
    blank.choose("Pick")
    blank.drag((6, 6))
    expect(chosen).to_have_value(str(DOOR))
    expect(blank.page.locator("[name=tool][value=brush]")).to_be_checked()
    assert np.array_equal(blank.pixels("source"), before)  # nothing is drawn
    blank.keys("1", "0")
    expect(chosen).to_have_value("10")
    blank.page.wait_for_timeout(1100)  # after a second, digits begin a new number
    blank.keys("9", "2")  # there is no class 92
    expect(chosen).to_have_value("2")
    blank.clear()
    blank.choose("roof")
    mouse = blank.page.mouse
    mouse.move(*blank.place(10, 10))
    mouse.down()
    blank.keys("r")  # a tool that is chosen within a stroke is for the next one
    mouse.move(*blank.place(40, 40))
    mouse.up()
    assert 0 < (labels(blank, tmp_path / "roof") == 2).sum() < 0.6 * 30 * 30


def test_one_can_draw_and_zoom_by_keyboard(blank: Opened, tmp_path: Path) -> None:
    blank.choose("door")
    blank["source"].focus()
    blank.keys("r", "Space", *["Shift+ArrowRight"] * 4, "ArrowDown", "Space")  # the cursor begins in the centre
    blank.wait()
    rows, columns = (labels(blank, tmp_path / "rectangle") == DOOR).nonzero()
    assert (rows.min(), rows.max(), columns.min(), columns.max()) == (32, 33, 32, 36)
    blank.clear()
    frame = blank.box("source-stage")
    blank.click("zoom-in")
    blank["size"].press("Home")  # the slider's end
    expect(blank["size"]).to_have_value("1")
    expect(blank["fit"]).to_be_enabled()
    blank.click("fit")
    blank["source"].focus()
    blank.keys("b", "+", "+", "=", "+", "-", "+", *["ArrowRight"] * 21, *["ArrowUp"], "Space")
    blank.wait()
    x, y = blank.place(57, 32)
    assert frame["x"] < x < frame["x"] + frame["width"]
    assert frame["y"] < y < frame["y"] + frame["height"]
    rows, columns = (labels(blank, tmp_path / "pixel") == DOOR).nonzero()
    assert (*rows, *columns) == (32, 57)
    blank.clear()
    blank.choose("wall")
    blank["source"].focus()
    blank.keys("p", "Space", *["ArrowLeft"] * 9, "Space", *["ArrowDown"] * 6, "Space", "Enter")
    blank.wait()
    rows, columns = (labels(blank, tmp_path / "polygon") == WALL).nonzero()
    assert (rows.min(), rows.max(), columns.min(), columns.max()) == (32, 38, 48, 57)
    assert 35 < rows.size < 60


def test_the_wheel_zooms_at_the_pointer_and_a_drag_moves_the_picture(blank: Opened, tmp_path: Path) -> None:
    mouse, width = blank.page.mouse, blank.box("source")["width"]
    expect(blank["fit"]).to_be_disabled()
    left, top = blank.place(-0.5, -0.5)  # the picture's corner
    x, y = (round(place) for place in blank.place(40, 13))
    mouse.move(x, y)
    for _ in range(4):
        mouse.wheel(0, -200)
    expect(blank["fit"]).to_be_enabled()
    growth = blank.box("source")["width"] / width
    assert growth > 3
    assert np.allclose(blank.place(-0.5, -0.5), (x - growth * (x - left), y - growth * (y - top)), atol=0.5)
    assert blank.box("result")["width"] == pytest.approx(growth * width, rel=0.02)  # the translation, too
    blank["size"].fill("1")
    blank.choose("door")
    blank.drag((40, 13), (43, 13))
    rows, columns = (labels(blank, tmp_path) == DOOR).nonzero()
    assert (set(rows), list(columns)) == ({13}, [40, 41, 42, 43])
    blank.click("fit")
    assert blank.box("source")["width"] == pytest.approx(width)
    mouse.move(x, y)
    mouse.wheel(0, 400)
    assert blank.box("source")["width"] == pytest.approx(width)  # no smaller than its frame
    before = blank.pixels("source")
    for by in ("middle", "space", "translation"):
        for _ in range(3):
            blank.click("zoom-in")
        box, middle = blank.box("result-stage"), blank.place(32, 32)
        start = (box["x"] + box["width"] / 2, box["y"] + box["height"] / 2) if by == "translation" else middle
        mouse.move(*start)
        if by == "space":
            blank.page.keyboard.down("Space")
        mouse.down(button="middle" if by == "middle" else "left")
        mouse.move(start[0] + 30, start[1] - 20)
        mouse.up(button="middle" if by == "middle" else "left")
        blank.page.keyboard.up("Space")
        assert np.allclose(blank.place(32, 32), (middle[0] + 30, middle[1] - 20), atol=1), by
        expect(blank["zoom-in"]).to_be_focused()
        blank.keys("Home")
        expect(blank["fit"]).to_be_disabled()
    blank.wait()
    assert np.array_equal(blank.pixels("source"), before)  # nothing is drawn


def test_a_polygon_is_closed_given_up_or_loses_a_corner(blank: Opened, tmp_path: Path) -> None:
    mouse = blank.page.mouse
    before = blank.pixels("source")
    blank.choose("door")
    blank.keys("p")
    for way in ("double click", "Enter", "first corner"):
        for corner in ((10, 10), (40, 10), (40, 30)):
            mouse.click(*blank.place(*corner))
        mouse.move(*blank.place(10, 60))  # the polygon is shown with a corner there
        expect(blank["corner"]).to_be_visible()
        if way == "double click":
            mouse.dblclick(*blank.place(10, 30))
        else:
            mouse.click(*blank.place(10, 30))
        if way == "Enter":
            blank.keys("Enter")
        elif way == "first corner":
            mouse.click(*blank.place(10, 10))
        expect(blank["corner"]).to_be_hidden()
        blank.wait()
        found, instances = blank.saved(tmp_path / way)
        assert (found[10:31, 10:41] == DOOR).all()
        assert (found == DOOR).sum() == 21 * 31
        assert len(np.unique(instances[found == DOOR])) == 1
        blank.click("undo")
        blank.wait()
        assert np.array_equal(blank.pixels("source"), before)
    blank.click("redo")
    assert (labels(blank, tmp_path / "redone") == DOOR).sum() == 21 * 31
    blank.click("undo")
    blank.choose("wall")
    for ending in ("Escape", "Control+z"):
        for corner in ((10, 10), (40, 10), (60, 60)):
            mouse.click(*blank.place(*corner))
        blank.keys(ending)
        blank.wait()
        assert np.array_equal(blank.pixels("source"), before) == (ending == "Escape")
    mouse.click(*blank.place(10, 40))
    blank.keys("Enter")
    blank.wait()
    found = labels(blank, tmp_path)
    assert (found[12, 12], found[50, 50]) == (WALL, 0)
    assert 31 * 31 / 2 - 20 < (found == WALL).sum() < 31 * 31 / 2 + 31
    blank.keys("Control+z")
    blank.wait()
    assert np.array_equal(blank.pixels("source"), before)


def test_the_page_fits_its_window_and_shows_what_is_chosen(blank: Opened) -> None:
    blank.more()
    for columns, rows in (("", "-5"), ("4096", "4096")):  # number fields show the number that is used
        blank["width"].fill(columns)
        blank["height"].fill(rows)
        blank.click("new")
        expect(blank["source"]).to_have_attribute("width", str(SIZE))
        expect(blank["source"]).to_have_attribute("height", "1")
    blank.assert_says("4096x4096: a picture has at most 8388608 pixels")
    blank.click("undo")
    blank.more()
    blank.wait()
    for value, clip in (("0", "100%"), ("40", "60%")):  # the slider lays the source over the translation
        blank["slider"].fill(value)
        assert blank["over"].evaluate("over => over.style.clipPath") == f"inset(0px {clip} 0px 0px)"
    assert np.array_equal(blank.pixels("over"), blank.pixels("source"))
    for width, height in ((360, 640), (640, 360), (1024, 768), (3840, 2160)):
        blank.page.set_viewport_size({"width": width, "height": height})
        for canvas in ("source", "result"):
            box = blank.box(canvas)
            assert 0 <= box["x"] <= width - box["width"]
            assert 0 <= box["y"] <= height - box["height"]
            assert min(box["width"], box["height"]) > 0.35 * min(width, height)
    blank.page.emulate_media(forced_colors="active")
    for name in ("tool", "value"):
        chosen, other = (screenshot(blank.page.locator(f"label:has([name={name}])").nth(at)) for at in range(2))
        assert np.abs(np.median(chosen, (0, 1)) - np.median(other, (0, 1))).max() > 50
    for at, color in enumerate(((135, 206, 250), (200, 85, 60))):  # colours of sky and wall
        assert (np.median(screenshot(blank.page.locator(".swatch").nth(at)), (0, 1)) == color).all()


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

    phone.more()  # every control is large enough for fingers, and has a name if it shows only an icon
    sizes = phone.page.evaluate(
        """() => [...document.querySelectorAll("button, select, summary, input, #tools label, #values label")]
            .filter(element => element.checkVisibility() && element.type !== "radio")
            .map(element => [element.id || element.textContent, element.getBoundingClientRect()])
            .map(([name, {width, height}]) => [name, Math.round(width), Math.round(height)])"""
    )
    assert len(sizes) > 30
    assert [size for size in sizes if min(size[1:]) < SMALLEST] == []
    for name in ("Undo", "Redo", "Clear", "Smaller", "Fit", "Larger"):
        expect(phone.page.get_by_role("button", name=name, exact=True)).to_have_count(1)
    for name in ("Brush", "Eraser", "Line", "Rectangle", "Polygon", "Fill", "Pick"):
        expect(phone.page.get_by_role("radio", name=name, exact=True)).to_have_count(1)
