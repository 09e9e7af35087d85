"""Drawing on the page in a real browser, with both engines: the server, and the network that the page carries."""

import statistics
from pathlib import Path

import numpy as np
import pytest
from playwright.sync_api import Browser, Route, expect

from tests.tools.playground.pages import Opened, read
from tests.tools.playground.serving import serving
from tests.tools.playground.trained import N_CLASSES, SIZE, Trained, page_of, translated_by_test_py

pytestmark = pytest.mark.browser


def test_a_stroke_changes_the_picture_as_test_py_translates_it(
    browser: Browser, facades: Trained, engine: str, tmp_path: Path
) -> None:
    with page_of(browser, facades, engine) as page:
        before, source = page.pixels("result"), page.pixels("source")
        assert before.shape == (SIZE, SIZE, 3)
        page.choose("window")
        page.drag((10, 10), (30, 12))
        after = page.pixels("result")
        painted = (page.pixels("source") != source).any(-1)
        assert painted[10:12, 10:30].mean() > 0.5
        assert painted[40:].sum() == 0
        changed = abs(after.astype(int) - before).max(-1)
        assert changed[8:14, 10:30].mean() > 3 * changed[50:].mean()
        labels, instances = page.download("save", tmp_path)
        (picture,) = page.download("download", tmp_path)
        page.page.locator("#undo").click()
        page.wait()
        assert np.array_equal(page.pixels("result"), before)
        assert np.array_equal(page.pixels("source"), source)
        page.page.locator("#redo").click()
        page.wait()
        assert np.array_equal(page.pixels("result"), after)
        page.page.keyboard.press("Control+z")
        page.wait()
        assert np.array_equal(page.pixels("result"), before)
        page.page.keyboard.press("Control+y")
        page.wait()
    assert np.array_equal(read(picture), after)
    assert read(labels).shape == (SIZE, SIZE)
    assert set(np.unique(read(labels))) <= set(range(N_CLASSES))
    expected = translated_by_test_py(facades, labels, instances, tmp_path)
    assert expected.std() > 10
    assert abs(after.astype(int) - expected).max() <= 1


@pytest.mark.parametrize("tool", ["Line", "Rectangle", "Fill"])
def test_shapes_have_exact_ids(browser: Browser, facades: Trained, tool: str, tmp_path: Path) -> None:
    with page_of(browser, facades, "server") as page:
        page.page.locator("#clear").click()
        page.choose("door")
        page.choose(tool)
        page.drag((5, 6), (20, 11))
        labels, instances = (read(path) for path in page.download("save", tmp_path))
        page.choose("Pick")
        page.choose("sky")
        page.drag((5, 6))
        assert page.page.locator("#values :checked + .swatch + span").inner_text() == "door"
        expect(page.page.locator("[name=tool][value=brush]")).to_be_checked()
    door = labels == 4
    expected = {"Line": None, "Rectangle": 16 * 6, "Fill": SIZE * SIZE}[tool]
    assert door.sum() == expected or (expected is None and 16 * 4 < door.sum() < 16 * 9)
    assert set(np.unique(labels)) <= {0, 4}
    assert len(np.unique(instances[door])) == 1
    assert tool == "Fill" or instances[door][0] not in instances[~door]


def test_instances_of_strokes(browser: Browser, facades: Trained, tmp_path: Path) -> None:
    with page_of(browser, facades, "server") as page:
        page.page.locator("#clear").click()
        page.choose("window")
        page.choose("Rectangle")
        page.drag((10, 10), (19, 19))
        page.drag((20, 10), (29, 19))  # connected with the first: one instance
        _, joined = (read(path) for path in page.download("save", tmp_path / "joined"))
        page.page.locator("summary").click()
        page.page.locator("#instances").select_option("stroke")
        page.drag((30, 10), (39, 19))  # and this one of its own
        _, apart = (read(path) for path in page.download("save", tmp_path / "apart"))
        page.page.locator("#instances-file").set_input_files(tmp_path / "joined" / "source_instances.png")
        page.page.wait_for_timeout(300)
        page.wait()
        _, opened_again = (read(path) for path in page.download("save", tmp_path / "opened"))
    assert joined.dtype == np.uint16 or joined.dtype == np.int32
    assert len(np.unique(joined[10:20, 10:30])) == 1
    assert len(np.unique(apart[10:20, 10:40])) == 2
    assert np.array_equal(opened_again, joined)  # both numbered in the order in which they occur


def test_samples_seeds_and_kept_results(browser: Browser, facades: Trained, engine: str) -> None:
    with page_of(browser, facades, engine) as page:
        first, source = page.pixels("result"), page.pixels("source")
        page.page.locator("#keep").click()
        page.page.locator("#samples").select_option(index=2)
        page.page.wait_for_timeout(300)
        page.wait()
        assert (page.pixels("source") != source).any()
        assert (page.pixels("result") != first).any()
        expect(page.page.locator("#seed-choice")).to_be_hidden()  # this network takes none
        expect(page.page.locator("#camera")).to_be_hidden()
        page.page.get_by_role("button", name="Open", exact=True).click()
        page.wait()
        assert np.array_equal(page.pixels("source"), source)
        assert np.array_equal(page.pixels("result"), first)


def test_the_slider_lays_the_source_over_the_translation(browser: Browser, facades: Trained) -> None:
    with page_of(browser, facades, "server") as page:
        over = page.page.locator("#over")
        assert over.evaluate("over => over.style.clipPath") == "inset(0px 100% 0px 0px)"
        page.page.locator("#slider").fill("40")
        assert over.evaluate("over => over.style.clipPath") == "inset(0px 60% 0px 0px)"
        assert np.array_equal(page.pixels("over"), page.pixels("source"))


def test_one_can_draw_by_keyboard(browser: Browser, facades: Trained, tmp_path: Path) -> None:
    with page_of(browser, facades, "server") as page:
        page.page.locator("#clear").click()
        page.choose("roof")
        page.source.focus()
        press = page.page.keyboard.press
        for key in ("r", "Space", *["Shift+ArrowRight"] * 4, "ArrowDown", "Space"):  # from the centre
            press(key)
        page.wait()
        labels, _ = (read(path) for path in page.download("save", tmp_path))
    rows, columns = (labels == 2).nonzero()
    assert (rows.min(), rows.max(), columns.min(), columns.max()) == (32, 33, 32, 36)


def test_a_server_that_comes_back_translates_what_is_drawn(browser: Browser, facades: Trained) -> None:
    command = ("--checkpoint", str(facades.run))
    with serving(*command) as server:
        context = browser.new_context()
        page = context.new_page()
        one = Opened(page)
        page.goto(server.url)
        one.wait()
        first = one.pixels("result")
    page.locator("#clear").click()
    assert "Start it again: python -m tools.playground" in one.message()
    expect(page.locator("#status")).to_have_text("no connection")
    expect(page.locator("#stale")).to_be_visible()
    with serving(*command, "--port", str(server.server_port)):
        one.wait()
        expect(page.locator("#message")).to_be_hidden()
        expect(page.locator("#stale")).to_be_hidden()
        assert (one.pixels("result") != first).any()
    with serving(*command, "--port", str(server.server_port), "--seed", "1"):
        page.locator("#undo").click()
        expect(page.locator("#message span")).to_contain_text("started with another model or other options. Reload")
    context.close()


def test_a_replaced_picture_comes_back_by_undo_and_a_drawing_after_a_reload(
    browser: Browser, facades: Trained, engine: str
) -> None:
    with page_of(browser, facades, engine) as page:
        undo, redo = page.page.locator("#undo"), page.page.locator("#redo")
        expect(undo).to_be_disabled()
        expect(redo).to_be_disabled()
        page.page.locator("summary").click()
        page.page.locator("#instances").select_option("stroke")
        page.choose("door")
        page.drag((10, 10), (30, 12))
        page.drag((10, 14), (30, 16))
        drawn, translated = page.pixels("source"), page.pixels("result")
        page.page.locator("#width").fill("20")
        page.page.locator("#new").click()
        expect(page.source).to_have_attribute("width", "20")
        page.page.locator("#samples").select_option(index=2)
        expect(page.source).to_have_attribute("width", str(SIZE))
        undo.click()
        expect(page.source).to_have_attribute("width", "20")
        undo.click()
        page.wait()
        assert np.array_equal(page.pixels("source"), drawn)
        expect(redo).to_be_enabled()
        page.page.reload()
        page.wait()
        assert np.array_equal(page.pixels("source"), drawn)
        assert np.array_equal(page.pixels("result"), translated)  # by its instances, too
        expect(undo).to_be_disabled()


def test_the_time_of_a_stroke_is_shown(browser: Browser, facades: Trained) -> None:
    with page_of(browser, facades, "server") as page:
        page.page.locator("#result").evaluate(
            "canvas => { window.times = []; "
            "canvas.addEventListener('translated', event => window.times.push(event.detail.milliseconds)); }"
        )
        for row in range(10, 15):
            page.drag((row, row), (40, row))
        times = page.page.locator("#result").evaluate("() => window.times")
        assert len(times) >= 5
        assert 0 < statistics.median(times) < 60_000
        assert page.page.locator("#time").inner_text().split()[1] in ("ms", "s")


def test_a_stroke_that_cuts_an_instance_makes_two_of_it(browser: Browser, facades: Trained, tmp_path: Path) -> None:
    with page_of(browser, facades, "server") as page:
        page.page.locator("#clear").click()
        page.choose("Rectangle")
        page.choose("wall")
        page.drag((10, 10), (50, 30))
        page.choose("sky")
        page.drag((30, 0), (31, 60))
        labels, instances = (read(path) for path in page.download("save", tmp_path))
    walls = labels == 1
    assert len(np.unique(instances[walls])) == 2
    assert len(np.unique(instances[20, 10:30])) == len(np.unique(instances[20, 32:51])) == 1
    assert len(np.unique(instances[labels == 0])) == 1  # the stroke joins the sky, which is one part


def test_a_tool_that_is_changed_in_the_middle_of_a_stroke_is_for_the_next(
    browser: Browser, facades: Trained, tmp_path: Path
) -> None:
    with page_of(browser, facades, "server") as page:
        page.page.locator("#clear").click()
        page.choose("roof")
        box = page.source.bounding_box()
        assert box is not None
        mouse = page.page.mouse
        mouse.move(box["x"] + 50, box["y"] + 50)
        mouse.down()
        page.page.keyboard.press("r")
        mouse.move(box["x"] + 250, box["y"] + 250)
        mouse.up()
        labels, _ = (read(path) for path in page.download("save", tmp_path))
    assert 0 < (labels == 2).sum() < 0.6 * 30 * 30  # a line of the brush, no rectangle


def test_two_fingers_draw_apart(browser: Browser, facades: Trained) -> None:
    with serving("--checkpoint", str(facades.run)) as server:
        context = browser.new_context(viewport={"width": 700, "height": 900}, has_touch=True)
        page = context.new_page()
        page.goto(server.url)
        expect(page.locator("#status")).to_have_text("ready")
        one = Opened(page)
        page.locator("#clear").click()
        one.choose("door")
        before = one.pixels("source")
        box = one.source.bounding_box()
        assert box is not None
        touch = context.new_cdp_session(page)
        points = [
            {"x": box["x"] + share * box["width"], "y": box["y"] + share * box["height"], "id": number}
            for number, share in enumerate((0.1, 0.8))
        ]
        touch.send("Input.dispatchTouchEvent", {"type": "touchStart", "touchPoints": points})
        for step in range(5):
            moved = [{**point, "x": point["x"] + 8 * step} for point in points]
            touch.send("Input.dispatchTouchEvent", {"type": "touchMove", "touchPoints": moved})
        touch.send("Input.dispatchTouchEvent", {"type": "touchEnd", "touchPoints": []})
        one.wait()
        painted = (one.pixels("source") != before).any(-1)
        context.close()
    assert painted.any()
    middle = painted[SIZE // 4 : SIZE // 2, SIZE // 4 : SIZE // 2]
    assert not middle.any()  # no line from one finger to the other


def test_number_fields_show_what_is_used(browser: Browser, facades: Trained) -> None:
    with page_of(browser, facades, "server") as page:
        page.page.locator("summary").click()
        page.page.locator("#width").fill("")
        page.page.locator("#height").fill("-5")
        page.page.locator("#new").click()
        expect(page.source).to_have_attribute("width", str(SIZE))
        expect(page.source).to_have_attribute("height", "1")
        expect(page.page.locator("#height")).to_have_value("1")
        page.page.locator("#width").fill("4096")
        page.page.locator("#height").fill("4096")
        page.page.locator("#new").click()
        assert "4096x4096: a picture has at most 8388608 pixels" in page.message()


def test_of_drawings_that_wait_only_the_newest_is_translated(browser: Browser, facades: Trained) -> None:
    with page_of(browser, facades, "server") as page:
        page.choose("door")
        asked = 0

        def answer_late(route: Route) -> None:
            nonlocal asked
            asked += 1
            page.page.wait_for_timeout(600)
            route.continue_()

        page.page.route("**/translate*", answer_late)
        page.source.focus()
        for _ in range(8):
            page.page.keyboard.press("ArrowRight")
            page.page.keyboard.press("Space")
        page.wait()
        assert 1 <= asked < 8
        latest = page.pixels("result")
        page.page.unroute("**/translate*")
        page.page.locator("#undo").click()
        page.wait()
        page.page.locator("#redo").click()
        page.wait()
        assert np.array_equal(page.pixels("result"), latest)  # it was the newest drawing's
