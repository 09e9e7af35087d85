"""Drawing with mouse, fingers and keyboard beyond plain strokes: zoom, eraser, picking, polygons."""

from collections.abc import Iterator
from io import BytesIO
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from playwright.sync_api import Browser, CDPSession, expect

from tests.conftest import save_image
from tests.tools.playground.pages import Opened, Trained, opened, page_of

pytestmark = pytest.mark.browser

WALL, DOOR = 1, 4  # ids of classes; the paper is sky, 0
SMALLEST = 44  # pixels of the screen, for fingers


def width_of(page: Opened) -> float:
    """Return how wide the picture is shown, beyond what is in sight, too."""
    return page.box("source")["width"]


def in_frame(page: Opened, x: float, y: float) -> tuple[float, float]:
    """Return how far the middle of a pixel is from its frame's centre: texts above may move the frame in the page."""
    box, (left, top) = page.box("source-stage"), page.place(x, y)
    return left - box["x"] - box["width"] / 2, top - box["y"] - box["height"] / 2


def labels(page: Opened, folder: Path) -> np.ndarray:
    return page.saved(folder)[0]


def test_the_wheel_zooms_at_the_pointer_and_pixels_are_still_those_under_it(blank: Opened, tmp_path: Path) -> None:
    mouse, width = blank.page.mouse, width_of(blank)
    expect(blank["fit"]).to_be_disabled()
    left, top = blank.place(-0.5, -0.5)  # of the picture's corner
    x, y = (round(place) for place in blank.place(40, 13))
    mouse.move(x, y)
    for _ in range(4):
        mouse.wheel(0, -200)
    expect(blank["fit"]).to_be_enabled()
    assert width_of(blank) > 3 * width
    growth = width_of(blank) / width
    assert np.allclose(blank.place(-0.5, -0.5), (x - growth * (x - left), y - growth * (y - top)), atol=0.5)
    assert blank.box("result")["width"] == pytest.approx(width_of(blank), rel=0.02)  # the translation, too
    blank["size"].fill("1")
    blank.choose("door")
    blank.drag((40, 13), (43, 13))
    rows, columns = (labels(blank, tmp_path) == DOOR).nonzero()
    assert set(rows) == {13}
    assert list(columns) == [40, 41, 42, 43]
    blank.click("fit")
    assert width_of(blank) == pytest.approx(width)
    mouse.move(x, y)
    mouse.wheel(0, 400)
    assert width_of(blank) == pytest.approx(width)  # no smaller than its frame


@pytest.mark.parametrize("by", ["middle", "space", "translation"])
def test_a_drag_moves_a_picture_that_is_larger_than_its_frame(blank: Opened, by: str) -> None:
    before, mouse = blank.pixels("source"), blank.page.mouse
    for _ in range(3):
        blank.click("zoom-in")
    if by == "translation":
        box = blank.box("result-stage")
        start = (box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    else:
        start = blank.place(32, 32)
    x, y = blank.place(32, 32)
    mouse.move(*start)
    if by == "space":
        blank.page.keyboard.down("Space")
    mouse.down(button="middle" if by == "middle" else "left")
    mouse.move(start[0] + 30, start[1] - 20)
    mouse.up(button="middle" if by == "middle" else "left")
    blank.page.keyboard.up("Space")
    assert np.allclose(blank.place(32, 32), (x + 30, y - 20), atol=1)
    blank.wait()
    assert np.array_equal(blank.pixels("source"), before)  # nothing is drawn
    expect(blank["zoom-in"]).to_be_focused()
    blank.page.keyboard.press("Home")
    expect(blank["fit"]).to_be_disabled()


def test_keys_zoom_and_the_picture_follows_who_draws_by_keyboard(blank: Opened, tmp_path: Path) -> None:
    frame = blank.box("source-stage")
    blank.click("zoom-in")
    blank["size"].press("Home")  # of the slider
    expect(blank["size"]).to_have_value("1")
    expect(blank["fit"]).to_be_enabled()
    blank.click("fit")
    blank.choose("door")
    blank["source"].focus()
    for key in ("+", "+", "=", "+", "-", "+", *["ArrowRight"] * 25, "Space"):
        blank.page.keyboard.press(key)
    blank.wait()
    x, y = blank.place(57, 32)
    assert frame["x"] < x < frame["x"] + frame["width"]
    assert frame["y"] < y < frame["y"] + frame["height"]
    rows, columns = (labels(blank, tmp_path) == DOOR).nonzero()
    assert (*rows, *columns) == (32, 57)


@pytest.mark.parametrize("tool", ["Brush", "Rectangle"])
def test_the_right_button_erases_and_opens_no_menu(blank: Opened, tool: str, tmp_path: Path) -> None:
    blank.choose("door")
    blank.choose("Rectangle")
    blank.drag((5, 5), (50, 50))
    blank["source"].evaluate(
        """canvas => document.addEventListener("contextmenu", event => (window.hasMenu = !event.defaultPrevented))"""
    )
    blank.choose(tool)
    blank.drag((20, 20), (30, 30), button="right")
    after = labels(blank, tmp_path / tool)
    assert (after[[20, 30], [20, 30]] == 0).all()
    assert (after[21, 29] == 0) == (tool == "Rectangle")
    assert after[6, 6] == DOOR
    blank.choose("Eraser")
    blank.drag((10, 10), (10, 20))
    after = labels(blank, tmp_path / "eraser")
    assert (after[10:21, 10] == 0).all()
    assert not blank.page.evaluate("() => window.hasMenu")
    blank.click("undo")
    assert labels(blank, tmp_path / "undone")[15, 10] == DOOR
    assert blank.page.locator("#values :checked + .swatch + span").inner_text() == "door"


def test_alt_picks_with_any_tool_and_digits_choose_classes(blank: Opened) -> None:
    chosen = blank.page.locator("#values :checked")
    blank.choose("door")
    blank.choose("Rectangle")
    blank.drag((5, 5), (20, 20))
    blank.choose("wall")
    blank.page.keyboard.down("Alt")
    blank.drag((10, 10), (30, 30))
    blank.page.keyboard.up("Alt")
    expect(chosen).to_have_value(str(DOOR))
    expect(blank.page.locator("[name=tool][value=rectangle]")).to_be_checked()
    assert (blank.pixels("source")[25, 25] == blank.pixels("source")[0, 0]).all()  # nothing is drawn
    for keys, value in (("7", "7"), ("3", "3"), ("0", "0"), ("10", "10"), ("1", "1"), ("92", "2")):
        blank.page.evaluate("() => new Promise(done => setTimeout(done, 1100))")  # as one that thinks in between
        for key in keys:
            blank.page.keyboard.press(key)
        expect(chosen).to_have_value(value)


def test_a_polygon_is_closed_by_a_double_click_by_enter_or_at_its_first_corner(blank: Opened, tmp_path: Path) -> None:
    mouse, corners = blank.page.mouse, [(10, 10), (40, 10), (40, 30)]
    blank.choose("door")
    blank.page.keyboard.press("p")
    for way in ("double click", "Enter", "first corner"):
        for x, y in corners:
            mouse.click(*blank.place(x, y))
        mouse.move(*blank.place(10, 60))  # the polygon is shown with a corner there
        expect(blank["corner"]).to_be_visible()
        if way == "double click":
            mouse.dblclick(*blank.place(10, 30))
        elif way == "Enter":
            mouse.click(*blank.place(10, 30))
            blank.page.keyboard.press("Enter")
        else:
            mouse.click(*blank.place(10, 30))
            mouse.click(*blank.place(10, 10))
        expect(blank["corner"]).to_be_hidden()
        blank.wait()
        found, instances = blank.saved(tmp_path / way)
        assert (found[10:31, 10:41] == DOOR).all()
        assert (found == DOOR).sum() == 21 * 31
        assert len(np.unique(instances[found == DOOR])) == 1
        blank.click("undo")
        assert (labels(blank, tmp_path / f"{way}, undone") == 0).all()
    blank.click("redo")
    assert (labels(blank, tmp_path / "redone") == DOOR).sum() == 21 * 31


def test_a_polygon_is_given_up_or_loses_a_corner(blank: Opened, tmp_path: Path) -> None:
    mouse, keyboard = blank.page.mouse, blank.page.keyboard
    before = blank.pixels("source")
    blank.choose("wall")
    blank.choose("Polygon")
    for corner in ((10, 10), (40, 10), (60, 60)):
        mouse.click(*blank.place(*corner))
    keyboard.press("Escape")
    blank.wait()
    assert np.array_equal(blank.pixels("source"), before)
    for corner in ((10, 10), (40, 10), (60, 60)):
        mouse.click(*blank.place(*corner))
    keyboard.press("Control+z")
    mouse.click(*blank.place(10, 40))
    keyboard.press("Enter")
    blank.wait()
    found = labels(blank, tmp_path)
    assert found[12, 12] == WALL
    assert found[50, 50] == 0
    assert 31 * 31 / 2 - 20 < (found == WALL).sum() < 31 * 31 / 2 + 31
    keyboard.press("Control+z")
    blank.wait()
    assert np.array_equal(blank.pixels("source"), before)


def test_a_polygon_is_drawn_by_keyboard(blank: Opened, tmp_path: Path) -> None:
    blank.choose("wall")
    blank["source"].focus()
    for key in ("p", "Space", *["ArrowRight"] * 9, "Space", *["ArrowDown"] * 6, "Space", "Enter"):
        blank.page.keyboard.press(key)
    blank.wait()
    rows, columns = (labels(blank, tmp_path) == WALL).nonzero()
    assert (rows.min(), rows.max(), columns.min(), columns.max()) == (32, 38, 32, 41)
    assert 35 < rows.size < 60


def test_a_photograph_is_laid_under_the_drawing_and_stays_in_the_browser(
    browser: Browser, photos: Trained, engine: str, tmp_path: Path
) -> None:
    save_image(tmp_path / "photo.png", np.full((40, 48, 3), (255, 0, 0), np.uint8))
    (tmp_path / "broken.png").write_bytes(b"x")
    with page_of(browser, photos, engine) as page:
        page.click("clear")
        page.wait()
        drawn, translated = page.pixels("source"), page.pixels("result")
        asked: list[str] = []
        page.page.on("request", lambda request: asked.append(request.method))
        expect(page["opacity"]).to_be_hidden()
        page["photo-file"].set_input_files(tmp_path / "photo.png")
        expect(page["photo"]).to_be_visible()
        for opacity, share in (("100", 1), ("0", 0), ("40", 0.4)):
            page["opacity"].fill(opacity)
            shown = np.asarray(Image.open(BytesIO(page["source-stage"].screenshot())).convert("RGB"))
            middle = shown[shown.shape[0] // 2, shown.shape[1] // 2]
            assert np.allclose(middle, (255, 255 * (1 - share), 255 * (1 - share)), atol=2)
        assert asked == []
        assert np.array_equal(page.pixels("source"), drawn)
        page.choose("black")
        page.drag((5, 5), (20, 20))
        page.click("undo")
        page.wait()
        assert np.array_equal(page.pixels("result"), translated)  # of the drawing alone
        (saved,) = page.saved(tmp_path)
        assert np.array_equal(saved, drawn)
        page["photo-file"].set_input_files(tmp_path / "broken.png")
        assert "broken.png: cannot be read as an image" in page.message()
        page.click("untrace")
        expect(page["photo"]).to_be_hidden()
        expect(page["source"]).to_have_css("opacity", "1")


class Fingers:
    """Touches on a page, by names."""

    def __init__(self, page: Opened) -> None:
        self.page = page
        self.session: CDPSession = page.page.context.new_cdp_session(page.page)
        self.down: set[str] = set()

    def put(self, **fingers: tuple[float, float]) -> None:
        """Put fingers on pixels of the picture, or move them there; those that are not named are lifted."""
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
        page.click("clear")
        page.wait()
        yield page


def test_a_finger_draws_and_two_together_zoom(phone: Opened) -> None:
    assert phone.page.evaluate("document.documentElement.scrollWidth") == 360
    before, width = phone.pixels("source"), width_of(phone)
    phone.page.get_by_text("door", exact=True).tap()
    fingers = Fingers(phone)
    fingers.put(one=(10, 10))
    fingers.put(one=(14, 12))
    phone.page.wait_for_timeout(400)
    fingers.put(one=(14, 12), late=(50, 50))
    fingers.put(one=(18, 12), late=(54, 50))
    fingers.put()
    phone.wait()
    painted = (phone.pixels("source") != before).any(-1)
    assert painted[11, 14]
    assert not painted[20:].any()  # a finger that comes later draws nothing
    assert width_of(phone) == pytest.approx(width)
    drawn = phone.pixels("source")
    middle = in_frame(phone, 31.5, 31.5)
    fingers.put(one=(24, 24), two=(39, 39))
    fingers.put(one=(16, 16), two=(47, 47))
    fingers.put()
    phone.wait()
    assert width_of(phone) == pytest.approx(2 * width, rel=0.1)
    assert np.allclose(in_frame(phone, 31.5, 31.5), middle, atol=4)
    assert np.array_equal(phone.pixels("source"), drawn)  # the first of them has begun no stroke


def test_everything_is_large_enough_for_fingers(phone: Opened) -> None:
    phone.page.locator("summary").click()
    sizes = phone.page.evaluate(
        """() => [...document.querySelectorAll("button, select, summary, input, #tools label, #values label")]
            .filter(element => element.checkVisibility() && element.type !== "radio")
            .map(element => [element.id || element.textContent, element.getBoundingClientRect()])
            .map(([name, {width, height}]) => [name, Math.round(width), Math.round(height)])"""
    )
    assert len(sizes) > 30
    assert [size for size in sizes if min(size[1:]) < SMALLEST] == []


def test_buttons_have_names_where_only_icons_are_shown(phone: Opened) -> None:
    for name in ("Undo", "Redo", "Clear", "Smaller", "Fit", "Larger"):
        expect(phone.page.get_by_role("button", name=name, exact=True)).to_have_count(1)
    for name in ("Brush", "Eraser", "Line", "Rectangle", "Polygon", "Fill", "Pick"):
        expect(phone.page.get_by_role("radio", name=name, exact=True)).to_have_count(1)
