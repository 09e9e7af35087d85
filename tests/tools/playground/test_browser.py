"""Drawing on the page in a real browser, with both engines: the server, and the network that the page carries."""

from io import BytesIO
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from playwright.sync_api import Browser, Locator, Route, expect

from tests.tools.playground.pages import N_CLASSES, SIZE, Opened, Trained, page_of, read, serving, translated_by_test_py

pytestmark = pytest.mark.browser


def test_a_stroke_changes_the_picture_as_test_py_translates_it(
    browser: Browser, facades: Trained, engine: str, tmp_path: Path
) -> None:
    with page_of(browser, facades, engine) as page:
        before, source = page.pixels("result"), page.pixels("source")
        assert before.shape == (SIZE, SIZE, 3)
        page["result"].evaluate(
            "canvas => canvas.addEventListener('translated', event => window.time = event.detail.milliseconds)"
        )
        page.choose("window")
        page.drag((10, 10), (30, 12))
        after = page.pixels("result")
        painted = (page.pixels("source") != source).any(-1)
        assert painted[10:12, 10:30].mean() > 0.5
        assert painted[40:].sum() == 0
        changed = abs(after.astype(int) - before).max(-1)
        assert changed[8:14, 10:30].mean() > 3 * changed[50:].mean()
        assert page.page.evaluate("() => window.time") > 0
        assert page["time"].inner_text().split()[1] in ("ms", "s")
        labels, instances = page.download("save", tmp_path)
        (picture,) = page.download("download", tmp_path)
        for take_back, repeat in (
            (page["undo"].click, page["redo"].click),
            (lambda: page.page.keyboard.press("Control+z"), lambda: page.page.keyboard.press("Control+y")),
        ):
            take_back()
            page.wait()
            assert np.array_equal(page.pixels("result"), before)
            assert np.array_equal(page.pixels("source"), source)
            repeat()
            page.wait()
            assert np.array_equal(page.pixels("result"), after)
    assert np.array_equal(read(picture), after)
    assert read(labels).shape == (SIZE, SIZE)
    assert set(np.unique(read(labels))) <= set(range(N_CLASSES))
    expected = translated_by_test_py(facades, labels, instances, tmp_path)
    assert expected.std() > 10
    assert abs(after.astype(int) - expected).max() <= 1


@pytest.mark.parametrize("tool", ["Line", "Rectangle", "Fill"])
def test_shapes_have_exact_ids(blank: Opened, tool: str, tmp_path: Path) -> None:
    blank.choose("door")
    blank.choose(tool)
    blank.drag((5, 6), (20, 11))
    labels, instances = blank.saved(tmp_path)
    blank.choose("Pick")
    blank.choose("sky")
    blank.drag((5, 6))
    assert blank.page.locator("#values :checked + .swatch + span").inner_text() == "door"
    expect(blank.page.locator("[name=tool][value=brush]")).to_be_checked()
    door = labels == 4
    expected = {"Line": None, "Rectangle": 16 * 6, "Fill": SIZE * SIZE}[tool]
    assert door.sum() == expected or (expected is None and 16 * 4 < door.sum() < 16 * 9)
    assert set(np.unique(labels)) <= {0, 4}
    assert len(np.unique(instances[door])) == 1
    assert tool == "Fill" or instances[door][0] not in instances[~door]


def test_instances_of_strokes(blank: Opened, tmp_path: Path) -> None:
    blank.choose("window")
    blank.choose("Rectangle")
    blank.drag((10, 10), (19, 19))
    blank.drag((20, 10), (29, 19))  # connected with the first: one instance
    _, joined = blank.saved(tmp_path / "joined")
    blank.page.locator("summary").click()
    blank["instances"].select_option("stroke")
    blank.drag((30, 10), (39, 19))  # and this one of its own
    _, apart = blank.saved(tmp_path / "apart")
    blank["instances-file"].set_input_files(tmp_path / "joined" / "source_instances.png")
    blank.wait_for_file()
    _, opened_again = blank.saved(tmp_path / "opened")
    assert joined.dtype in (np.uint16, np.int32)
    assert len(np.unique(joined[10:20, 10:30])) == 1
    assert len(np.unique(apart[10:20, 10:40])) == 2
    assert np.array_equal(opened_again, joined)  # both numbered in the order in which they occur


def test_a_stroke_that_cuts_an_instance_makes_two_of_it(blank: Opened, tmp_path: Path) -> None:
    blank.choose("Rectangle")
    blank.choose("wall")
    blank.drag((10, 10), (50, 30))
    blank.choose("sky")
    blank.drag((30, 0), (31, 60))
    labels, instances = blank.saved(tmp_path)
    assert len(np.unique(instances[labels == 1])) == 2
    assert len(np.unique(instances[20, 10:30])) == len(np.unique(instances[20, 32:51])) == 1
    assert len(np.unique(instances[labels == 0])) == 1  # the stroke joins the sky, which is one part


def test_the_slider_lays_the_source_over_the_translation(blank: Opened) -> None:
    for value, clip in (("0", "100%"), ("40", "60%")):
        blank["slider"].fill(value)
        assert blank["over"].evaluate("over => over.style.clipPath") == f"inset(0px {clip} 0px 0px)"
    assert np.array_equal(blank.pixels("over"), blank.pixels("source"))


def test_one_can_draw_by_keyboard(blank: Opened, tmp_path: Path) -> None:
    blank.choose("roof")
    blank["source"].focus()
    for key in ("r", "Space", *["Shift+ArrowRight"] * 4, "ArrowDown", "Space"):  # from the centre
        blank.page.keyboard.press(key)
    blank.wait()
    rows, columns = (blank.saved(tmp_path)[0] == 2).nonzero()
    assert (rows.min(), rows.max(), columns.min(), columns.max()) == (32, 33, 32, 36)


def test_a_server_that_comes_back_translates_what_is_drawn(browser: Browser, facades: Trained) -> None:
    command = ("--checkpoint", str(facades.run))
    context = browser.new_context()
    page = Opened(context.new_page())
    with serving(*command) as server:
        page.page.goto(server.url)
        page.wait()
        first = page.pixels("result")
    page.click("clear")
    assert "Start it again: python -m tools.playground" in page.message()
    expect(page["status"]).to_have_text("no connection")
    expect(page["stale"]).to_be_visible()
    with serving(*command, "--port", str(server.port)):
        page.wait()
        expect(page["message"]).to_be_hidden()
        expect(page["stale"]).to_be_hidden()
        assert (page.pixels("result") != first).any()
    with serving(*command, "--port", str(server.port), "--seed", "1"):
        page.click("undo")
        text = "started with another model or other options. Reload"
        expect(page.page.locator("#message span")).to_contain_text(text)
    context.close()


def test_a_replaced_picture_comes_back_by_undo_and_a_drawing_after_a_reload(
    browser: Browser, facades: Trained, engine: str
) -> None:
    with page_of(browser, facades, engine) as page:
        expect(page["undo"]).to_be_disabled()
        expect(page["redo"]).to_be_disabled()
        page.page.locator("summary").click()
        page["instances"].select_option("stroke")
        page.choose("door")
        page.drag((10, 10), (30, 12))
        page.drag((10, 14), (30, 16))
        drawn, translated = page.pixels("source"), page.pixels("result")
        page["width"].fill("20")
        page.click("new")
        expect(page["source"]).to_have_attribute("width", "20")
        page["samples"].select_option(index=2)
        expect(page["source"]).to_have_attribute("width", str(SIZE))
        page.click("undo")
        expect(page["source"]).to_have_attribute("width", "20")
        page.click("undo")
        page.wait()
        assert np.array_equal(page.pixels("source"), drawn)
        expect(page["redo"]).to_be_enabled()
        page.page.reload()
        page.wait()
        assert np.array_equal(page.pixels("source"), drawn)
        assert np.array_equal(page.pixels("result"), translated)  # by its instances, too
        expect(page["undo"]).to_be_disabled()


def test_a_tool_that_is_changed_in_the_middle_of_a_stroke_is_for_the_next(blank: Opened, tmp_path: Path) -> None:
    blank.choose("roof")
    box, mouse = blank.box("source"), blank.page.mouse
    mouse.move(box["x"] + 50, box["y"] + 50)
    mouse.down()
    blank.page.keyboard.press("r")
    mouse.move(box["x"] + 250, box["y"] + 250)
    mouse.up()
    labels, _ = blank.saved(tmp_path)
    assert 0 < (labels == 2).sum() < 0.6 * 30 * 30  # a line of the brush, no rectangle


def test_number_fields_show_what_is_used(blank: Opened) -> None:
    blank.page.locator("summary").click()
    for width, height in (("", "-5"), ("4096", "4096")):
        blank["width"].fill(width)
        blank["height"].fill(height)
        blank.click("new")
        expect(blank["source"]).to_have_attribute("width", str(SIZE))
        expect(blank["source"]).to_have_attribute("height", "1")
    assert "4096x4096: a picture has at most 8388608 pixels" in blank.message()


def test_of_drawings_that_wait_only_the_newest_is_translated(blank: Opened) -> None:
    blank.choose("door")
    asked = 0

    def answer_late(route: Route) -> None:
        nonlocal asked
        asked += 1
        blank.page.wait_for_timeout(600)
        route.continue_()

    blank.page.route("**/translate*", answer_late)
    blank["source"].focus()
    for _ in range(8):
        blank.page.keyboard.press("ArrowRight")
        blank.page.keyboard.press("Space")
    blank.wait()
    assert 1 <= asked < 8
    latest = blank.pixels("result")
    blank.page.unroute("**/translate*")
    for name in ("undo", "redo"):
        blank.click(name)
        blank.wait()
    assert np.array_equal(blank.pixels("result"), latest)  # it was the newest drawing's


def screenshot(element: Locator) -> np.ndarray:
    return np.asarray(Image.open(BytesIO(element.screenshot())).convert("RGB")).astype(int)


def test_both_pictures_are_in_sight_and_forced_colours_show_what_is_chosen(blank: Opened) -> None:
    for width, height in ((360, 640), (640, 360), (1024, 768), (1920, 1080), (3840, 2160)):
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
    for at, color in enumerate(((135, 206, 250), (200, 85, 60))):  # of sky and wall
        assert (np.median(screenshot(blank.page.locator(".swatch").nth(at)), (0, 1)) == color).all()


def test_a_browser_without_simd_shows_samples(browser: Browser, facades: Trained) -> None:
    context = browser.new_context()
    context.add_init_script("WebAssembly.validate = () => false")
    page = Opened(context.new_page())
    page.page.goto(facades.page.as_uri())
    expect(page["status"]).to_have_text("no translations")
    assert "This browser has no WebAssembly SIMD, which the network needs" in page.message()
    first = page.pixels("source")
    assert first.shape == (SIZE, SIZE, 3)
    page["samples"].select_option(index=2)
    page.page.wait_for_function("() => document.getElementById('samples').value === '1'")
    page.page.wait_for_timeout(100)
    assert (page.pixels("source") != first).any()
    context.close()
