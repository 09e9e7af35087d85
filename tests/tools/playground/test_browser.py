"""One journey over the page of label maps in a real browser, with both engines, and journeys of its obstacles."""

import re
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from playwright.sync_api import Browser, Route, expect
from scipy import ndimage

from tests.conftest import save_image
from tests.tools.playground.pages import N_CLASSES, SIZE, Opened, Trained, assert_as_test_py, page_of, read, serving

pytestmark = pytest.mark.browser


def test_a_journey_over_the_page_of_label_maps(browser: Browser, facades: Trained, engine: str, tmp_path: Path) -> None:
    with page_of(browser, facades, engine) as page:
        expect(page["seed-choice"]).to_be_hidden()  # this network takes none
        expect(page["camera"]).to_be_hidden()
        draw_and_undo(page, facades, tmp_path / "drawn")
        keep_and_reload(page, tmp_path)
        open_label_maps(page, facades, tmp_path)
        refuse_files(page, tmp_path)
        if engine == "file":
            page.more()
            page.assert_no_barriers()


def draw_and_undo(page: Opened, facades: Trained, folder: Path) -> None:
    expect(page["undo"]).to_be_disabled()
    before, source = page.pixels("result"), page.pixels("source")
    assert before.shape == (SIZE, SIZE, 3)
    page.more()
    page["instances"].select_option("stroke")
    page.choose("window")
    page.drag((10, 10), (30, 12))
    page.drag((10, 14), (30, 16))  # two instances that touch
    after = page.pixels("result")
    painted = (page.pixels("source") != source).any(-1)
    assert painted[10:12, 10:30].mean() > 0.5
    assert painted[40:].sum() == 0
    changed = abs(after.astype(int) - before).max(-1)
    assert changed[8:18, 10:30].mean() > 3 * changed[50:].mean()
    labels, instances = page.saved(folder)
    (picture,) = page.download("download", folder)
    page.keys("Control+z", "Control+z")
    page.wait()
    assert np.array_equal(page.pixels("result"), before)
    assert np.array_equal(page.pixels("source"), source)
    page.click("redo")
    page.keys("Control+y")
    page.wait()
    assert np.array_equal(page.pixels("result"), after)
    assert np.array_equal(read(picture), after)
    assert_as_test_py(after, facades, labels, instances, folder)


def keep_and_reload(page: Opened, folder: Path) -> None:
    """Keep two results. Over a reload they stay, and so does the drawing."""
    figures, images = page.page.locator("#gallery figure"), page.page.locator("#gallery img")
    source, result = page.pixels("source"), page.pixels("result")
    (file,) = page.download("download-both", folder)
    assert np.array_equal(read(file), result)
    page.click("keep")
    expect(figures).to_have_count(1)
    page["width"].fill("400")
    page["height"].fill("520")
    page.click("new")
    page.wait_for_file(width=400)
    page.click("keep")
    expect(figures).to_have_count(2)
    page.click("undo")
    page.wait_for_file(width=SIZE)
    page.page.reload()
    page.wait()
    assert np.array_equal(page.pixels("source"), source)
    assert np.array_equal(page.pixels("result"), result)  # its instances are kept, too
    expect(page["undo"]).to_be_disabled()
    expect(figures).to_have_count(2)
    sides = "image => image.decode().then(() => [image.naturalWidth, image.naturalHeight])"
    assert [image.evaluate(sides) for image in images.all()] == [[200, 260], [SIZE, SIZE]]
    page.choose_sample(2)
    assert (page.pixels("source") != source).any()
    assert (page.pixels("result") != result).any()
    for open_again in (
        lambda: page.drop(file),
        lambda: figures.nth(1).get_by_role("button", name="Open", exact=True).click(),
    ):
        open_again()
        page.wait_for_file()
        assert np.array_equal(page.pixels("source"), source)
        assert np.array_equal(page.pixels("result"), result)
        page.click("undo")
        page.wait()
    with page.page.expect_download() as download:
        figures.nth(1).get_by_role("button", name="Download").click()
    download.value.save_as(folder / "kept.png")
    assert np.array_equal(read(folder / "kept.png"), result)
    figures.nth(0).get_by_role("button", name="Remove").click()
    expect(figures).to_have_count(1)
    page.page.wait_for_timeout(1000)  # the browser writes its database after the page has changed
    page.page.reload()
    page.wait()
    expect(figures).to_have_count(1)


def open_label_maps(page: Opened, facades: Trained, folder: Path) -> None:
    """Open maps of grey levels and of a palette. Each connected part of a class is an instance."""
    labels = np.random.default_rng(0).integers(0, 3, (21, 37), dtype=np.uint8)
    save_image(folder / "wide.png", labels)
    palette = Image.frombytes("P", (37, 21), labels[:, ::-1].tobytes())
    palette.putpalette(list(range(3 * N_CLASSES)))
    palette.save(folder / "palette.png", bits=4)
    result = page.open(folder / "wide.png", width=37)
    saved, instances = page.saved(folder)
    assert np.array_equal(saved, labels)
    assert_as_test_py(result, facades, saved, instances, folder / "wide")
    for kind in range(3):
        found, n = ndimage.label(labels == kind, np.ones((3, 3)))
        pairs = {*zip(found[found > 0], instances[found > 0], strict=True)}
        assert len(pairs) == n == len({number for _, number in pairs})
    page.open(folder / "palette.png")
    assert np.array_equal(page.saved(folder / "again")[0], labels[:, ::-1])


def refuse_files(page: Opened, folder: Path) -> None:
    (folder / "notes.txt").write_text("hello")
    save_image(folder / "photo.png", np.full((4, 4, 3), 128, np.uint8))
    save_image(folder / "ids.png", np.full((4, 4), 99, np.uint8))
    (folder / "cut.png").write_bytes((folder / "wide.png").read_bytes()[:100])
    before = page.pixels("source")
    for name, message in (
        ("notes.txt", "notes.txt: is no PNG. Save the label map as a PNG"),
        ("photo.png", "photo.png: holds RGB colours, but must hold class"),
        ("ids.png", "(row 0, column 0) holds id 99"),
        ("cut.png", "cut.png: is damaged"),
    ):
        page.drop(folder / name)
        page.assert_says(message)
        assert np.array_equal(page.pixels("source"), before)


def test_a_server_that_comes_back_translates_the_drawing(browser: Browser, facades: Trained) -> None:
    command = ("--checkpoint", str(facades.run))
    context = browser.new_context()
    page = Opened(context.new_page())
    with serving(*command) as server:
        page.page.goto(server.url)
        page.wait()
        first = page.pixels("result")
    page.click("clear")
    page.assert_says("Start it again: python -m tools.playground")
    expect(page["status"]).to_have_text("no connection")
    expect(page["stale"]).to_be_visible()
    with serving(*command, "--port", str(server.port)):
        page.wait()
        expect(page["message"]).to_be_hidden()
        expect(page["stale"]).to_be_hidden()
        assert (page.pixels("result") != first).any()
    context.close()


def test_a_slow_server_translates_smaller_drawings_while_one_draws(blank: Opened) -> None:
    asked: list[str] = []

    def answer(route: Route) -> None:
        """Answer the first late, and the others at once."""
        size = re.search(rb"\nP5 (\d+) (\d+) ", route.request.post_data_buffer or b"")
        assert size is not None
        asked.append(f"{int(size[1])}x{int(size[2])}")
        blank.page.wait_for_timeout(250 if len(asked) == 1 else 0)
        route.continue_()

    blank.page.route("**/translate*", answer)
    blank.click("clear")  # the page measures the time of this translation
    blank.choose("window")
    mouse = blank.page.mouse
    mouse.move(*blank.place(10, 10))
    mouse.down()
    for step in range(3):
        mouse.move(*blank.place(12 + 8 * step, 12))
    expect(blank["keep"]).to_be_disabled()
    assert asked[1] == "32x32"
    mouse.move(*blank.place(50, 50))
    mouse.up()
    blank.wait()
    assert asked[-1] == "64x64"
    assert blank.pixels("result").shape == (SIZE, SIZE, 3)
