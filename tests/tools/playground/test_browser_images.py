"""The pages of RGB images and of coloured label maps: files, the camera, tracing, and other sizes of targets."""

import zlib
from io import BytesIO
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from playwright.sync_api import Browser, expect

from tests.conftest import save_image, write_tiny_config
from tests.runs import untrained_run
from tests.tools.playground.pages import COLORS, STRONG, Opened, Trained, assert_as_test_py, exported, page_of, read

pytestmark = pytest.mark.browser


def save_grey_png(path: Path, width: int, height: int, pixels: bytes) -> None:
    """Save a PNG of 8 bits whose compressed pixels may have another size."""
    header = b"IHDR" + width.to_bytes(4, "big") + height.to_bytes(4, "big") + bytes([8, 0, 0, 0, 0])
    content = b"\x89PNG\r\n\x1a\n"
    for chunk in (header, b"IDAT" + pixels):
        content += (len(chunk) - 4).to_bytes(4, "big") + chunk + zlib.crc32(chunk).to_bytes(4, "big")
    path.write_bytes(content)


def test_a_journey_over_the_page_of_images(browser: Browser, photos: Trained, engine: str, tmp_path: Path) -> None:
    with page_of(browser, photos, engine) as page:
        assert page.pixels("source").shape == (40, 48, 3)  # the sample of the test split
        if engine == "server":
            page.more()
            page.click("keep")
            page.assert_no_barriers()
        open_and_draw(page, photos, engine, tmp_path)
        trace(page, tmp_path)
        use_the_camera(page)


def open_and_draw(page: Opened, photos: Trained, engine: str, folder: Path) -> None:
    photo, large = (np.random.default_rng(1).integers(0, 256, (*s, 3), dtype=np.uint8) for s in ((30, 41), (61, 121)))
    pencil = np.zeros((8, 9, 4), np.uint8)
    pencil[3, 2:7, 3] = 255  # a black line on nothing, which becomes paper
    for name, pixels in (("photo.png", photo), ("large.png", large), ("pencil.png", pencil)):
        save_image(folder / name, pixels)
    (folder / "broken.png").write_bytes(b"x")
    save_grey_png(folder / "huge.png", 20000, 20000, zlib.compress(b""))
    page.open(folder / "photo.png", width=41)
    assert np.array_equal(page.pixels("source"), photo)
    page.choose("black")
    page.drag((5, 5), (20, 20))
    assert (page.pixels("source")[12, 12] == 0).all()
    (source,) = page.download("save", folder)
    assert_as_test_py(page.pixels("result"), photos, read(source), None, folder)
    (result,) = page.download("download-both", folder)
    page.open(folder / "pencil.png", width=9)
    assert np.array_equal(page.pixels("source")[..., 0] == 0, pencil[..., 3] > 0)
    page.open(result, width=41)
    assert np.array_equal(page.pixels("source"), read(source))
    page.drop(folder / "broken.png")
    page.assert_says("broken.png: cannot be read as an image")
    if engine == "server":  # a live page keeps the longest side of the training
        page.open(folder / "large.png", width=48)
        assert page.pixels("source").shape == (24, 48, 3)
        page.assert_says("large.png: 121x61 was made smaller, to 48x24")
    else:
        whole = page.open(folder / "large.png", width=121)
        assert np.array_equal(page.pixels("source"), large)
        expect(page["message"]).to_be_hidden()
        assert_as_test_py(whole, photos, large, None, folder / "large")
    page.drop(folder / "huge.png")
    page.assert_says("huge.png: is 20000x20000, more than the 89478485")
    page["file"].set_input_files(folder / "photo.png")
    page.wait_for_file(width=41)
    page.page.locator("html").evaluate(
        """(_, bytes) => {
            const clipboardData = new DataTransfer();
            clipboardData.items.add(new File([new Uint8Array(bytes)], "pasted.png"));
            document.dispatchEvent(new ClipboardEvent("paste", {clipboardData}));
        }""",
        list((folder / "pencil.png").read_bytes()),
    )
    page.wait_for_file(width=9)


def trace(page: Opened, folder: Path) -> None:
    """Lay a photograph under the drawing. It stays in the browser."""
    save_image(folder / "red.png", np.full((40, 48, 3), (255, 0, 0), np.uint8))
    page.click("clear")
    page.wait()
    drawn, translated = page.pixels("source"), page.pixels("result")
    asked: list[str] = []
    page.page.on("request", lambda request: asked.append(request.method))
    expect(page["opacity"]).to_be_hidden()
    page["photo-file"].set_input_files(folder / "red.png")
    expect(page["photo"]).to_be_visible()
    for opacity, share in (("100", 1), ("0", 0), ("40", 0.4)):
        page["opacity"].fill(opacity)
        shown = np.asarray(Image.open(BytesIO(page["source-stage"].screenshot())).convert("RGB"))
        middle = shown[shown.shape[0] // 2, shown.shape[1] // 2]
        assert np.allclose(middle, (255, 255 * (1 - share), 255 * (1 - share)), atol=2)
    assert asked == []
    page.drag((2, 2), (6, 6))
    page.click("undo")
    page.wait()
    assert np.array_equal(page.pixels("source"), drawn)
    assert np.array_equal(page.pixels("result"), translated)  # only the drawing is translated
    (saved,) = page.download("save", folder)
    assert np.array_equal(read(saved), drawn)
    page.click("untrace")
    expect(page["photo"]).to_be_hidden()
    expect(page["source"]).to_have_css("opacity", "1")


def use_the_camera(page: Opened) -> None:
    drawn, button = page.pixels("source"), page["camera"]
    button.evaluate("button => { button.click(); button.click(); }")  # off again while it starts
    page.page.wait_for_timeout(800)
    expect(button).to_have_attribute("aria-pressed", "true")
    first = page.pixels("result")
    page.page.wait_for_timeout(1000)
    second = page.pixels("result")
    assert first.shape != second.shape or (first != second).any()
    button.click()
    expect(button).to_have_attribute("aria-pressed", "false")
    page.wait()
    still = page.pixels("source")
    page.page.wait_for_timeout(300)
    assert np.array_equal(page.pixels("source"), still)
    page.click("undo")
    page.wait()
    assert np.array_equal(page.pixels("source"), drawn)


def test_a_sample_that_cannot_be_read_leaves_a_page_that_works(browser: Browser, photos: Trained) -> None:
    test_split = photos.run.parents[1] / "pairs" / "test"
    (test_split / "0.png").write_bytes(b"no image")
    try:
        with page_of(browser, photos, "server") as page:
            page.assert_says("0.png")
            page.drag((5, 5), (20, 20))
            assert page.pixels("result").shape == page.pixels("source").shape
    finally:
        (test_split / "0.png").unlink()


def test_label_maps_in_colours_are_opened_and_saved(browser: Browser, colored: Trained, tmp_path: Path) -> None:
    classes = np.random.default_rng(0).integers(0, 4, (21, 37))
    save_image(tmp_path / "map.png", COLORS[classes])
    wrong = COLORS[classes].copy()
    wrong[2, 5] = (71, 130, 180)
    save_image(tmp_path / "wrong.png", wrong)
    with page_of(browser, colored, "server") as page:
        found = page.open(tmp_path / "map.png", width=37)
        (saved,) = page.download("save", tmp_path)
        page.drop(tmp_path / "wrong.png")
        page.assert_says("wrong.png: pixel (row 2, column 5) has the colour [71, 130, 180], which is none")
        page.choose("road")
        page.drag((5, 5), (20, 20))
        assert (page.pixels("source")[12, 12] == COLORS[1]).all()
    assert np.array_equal(read(saved)[classes < 2], COLORS[classes][classes < 2])
    assert {tuple(color) for color in read(saved)[classes > 1].tolist()} <= {(0, 0, 0), (9, 9, 9)}
    assert_as_test_py(found, colored, read(saved), None, tmp_path)


def test_large_and_odd_label_maps(blank: Opened, tmp_path: Path) -> None:
    save_image(tmp_path / "large.png", np.zeros((100, 128), np.uint8))
    save_image(tmp_path / "instances.png", np.zeros((100, 128), np.uint16))
    save_grey_png(tmp_path / "huge.png", 20000, 20000, zlib.compress(b""))
    labels = np.random.default_rng(3).integers(0, 12, (7, 6), dtype=np.uint8)
    rows = b"".join(b"\0" + row.tobytes() for row in labels)
    save_grey_png(tmp_path / "spare.png", 6, 7, zlib.compress(rows) + b"xx")  # Pillow reads such files too
    blank.drop(tmp_path / "large.png")
    blank.assert_says("large.png: 128x100 was made smaller, to 64x50")
    blank["instances-file"].set_input_files(tmp_path / "instances.png")
    blank.assert_says("First open the label map that it belongs to, with a longest side of 128.")
    blank.drop(tmp_path / "huge.png")
    blank.assert_says("huge.png: is 20000x20000, more than the 89478485 pixels")
    blank.open(tmp_path / "spare.png", width=6)
    assert np.array_equal(blank.saved(tmp_path / "saved")[0], labels)


@pytest.mark.parametrize("scale", [4.0, 0.5])
def test_the_result_has_the_size_of_the_target(browser: Browser, scale: float, tmp_path: Path) -> None:
    config, rng = write_tiny_config(tmp_path), np.random.default_rng(0)
    for split in ("train", "test"):
        for side, times in (("A", 1.0), ("B", scale)):
            pixels = rng.integers(0, 256, (round(24 * times), round(40 * times), 3), dtype=np.uint8)
            save_image(tmp_path / "pairs" / f"{split}_{side}" / "1.png", pixels)
    data = ("data.layout=paired_folders", f"data.root={tmp_path / 'pairs'}", "data.instance_edges=false")
    settings = (*data, f"generator.scale={scale}")
    trained = exported(config, *settings) if scale > 1 else Trained(untrained_run(config, STRONG, *settings), Path())
    with page_of(browser, trained, "file" if scale > 1 else "server") as page:
        source, result, over = (page.pixels(name) for name in ("source", "result", "over"))
        (saved,) = page.download("save", tmp_path)
        (picture,) = page.download("download", tmp_path)
    assert source.shape == (24, 40, 3)
    assert result.shape == over.shape == (round(24 * scale), round(40 * scale), 3)
    if scale > 1:
        assert np.array_equal(over, source.repeat(round(scale), 0).repeat(round(scale), 1))
    assert np.array_equal(read(picture), result)
    assert_as_test_py(result, trained, read(saved), None, tmp_path)
