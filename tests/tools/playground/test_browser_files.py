"""Files, the camera and other sizes on the page in a real browser, with both engines."""

import zlib
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from playwright.sync_api import Browser, Route, expect

from tests.conftest import save_image, write_tiny_config
from tests.tools.playground.pages import (
    COLORS,
    N_CLASSES,
    Opened,
    Trained,
    exported,
    page_of,
    read,
    translated_by_test_py,
)

pytestmark = pytest.mark.browser

GREY = np.full((4, 4, 3), 128, np.uint8)


def test_a_saved_label_map_is_loaded_again(browser: Browser, facades: Trained, engine: str, tmp_path: Path) -> None:
    labels = np.random.default_rng(0).integers(0, N_CLASSES, (21, 37), dtype=np.uint8)
    save_image(tmp_path / "wide.png", labels)
    palette = Image.frombytes("P", (37, 21), labels[:, ::-1].tobytes())
    palette.putpalette(list(range(3 * N_CLASSES)))
    palette.save(tmp_path / "palette.png", bits=4)
    with page_of(browser, facades, engine) as page:
        page.drop(tmp_path / "wide.png")
        page.wait()
        expect(page["source"]).to_have_attribute("height", "21")
        page.wait()
        assert page.pixels("result").shape == (21, 37, 3)
        saved, instances = page.download("save", tmp_path)
        assert np.array_equal(read(saved), labels)
        first = page.pixels("result").astype(int)
        page.drop(tmp_path / "palette.png")
        page.page.wait_for_timeout(500)
        page.wait()
        (mirrored, _) = page.download("save", tmp_path / "again")
        assert np.array_equal(read(mirrored), labels[:, ::-1])
    expected = translated_by_test_py(facades, saved, instances, tmp_path)
    assert abs(first - expected).max() <= 1


def test_label_maps_in_colours_are_opened_and_saved(
    browser: Browser, colored: Trained, engine: str, tmp_path: Path
) -> None:
    classes = np.random.default_rng(0).integers(0, 4, (21, 37))
    save_image(tmp_path / "map.png", COLORS[classes])
    wrong = COLORS[classes].copy()
    wrong[2, 5] = (71, 130, 180)
    save_image(tmp_path / "wrong.png", wrong)
    with page_of(browser, colored, engine) as page:
        page.drop(tmp_path / "map.png")
        page.wait_for_file(width=37)
        found = page.pixels("result").astype(int)
        (saved,) = page.download("save", tmp_path)
        page.drop(tmp_path / "wrong.png")
        assert "wrong.png: pixel (row 2, column 5) has the colour [71, 130, 180], which is none" in page.message()
        page.choose("road")
        page.drag((5, 5), (20, 20))
        assert (page.pixels("source")[12, 12] == COLORS[1]).all()
    assert np.array_equal(read(saved)[classes < 2], COLORS[classes][classes < 2])
    assert {tuple(color) for color in read(saved)[classes > 1].tolist()} <= {(0, 0, 0), (9, 9, 9)}
    expected = translated_by_test_py(colored, saved, None, tmp_path)
    assert expected.std() > 1
    assert abs(found - expected).max() <= 1


def save_cut_off(path: Path) -> None:
    save_image(path, np.random.default_rng(0).integers(0, N_CLASSES, (64, 64), dtype=np.uint8))
    path.write_bytes(path.read_bytes()[:200])


def save_grey_png(path: Path, width: int, height: int, pixels: bytes) -> None:
    """Save a PNG of 8 bits whose compressed pixels may be of another size."""
    header = b"IHDR" + width.to_bytes(4, "big") + height.to_bytes(4, "big") + bytes([8, 0, 0, 0, 0])
    data = b"IDAT" + pixels
    content = b"\x89PNG\r\n\x1a\n"
    for chunk in (header, data):
        content += (len(chunk) - 4).to_bytes(4, "big") + chunk + zlib.crc32(chunk).to_bytes(4, "big")
    path.write_bytes(content)


def test_a_label_map_is_not_made_smaller_silently(blank: Opened, tmp_path: Path) -> None:
    save_image(tmp_path / "large.png", np.zeros((100, 128), np.uint8))
    save_image(tmp_path / "instances.png", np.zeros((100, 128), np.uint16))
    save_grey_png(tmp_path / "huge.png", 20000, 20000, zlib.compress(b""))
    blank.drop(tmp_path / "large.png")
    message = blank.page.locator("#message span")
    expect(message).to_contain_text("large.png: 128x100 was made smaller, to 64x50")
    blank["instances-file"].set_input_files(tmp_path / "instances.png")
    expect(message).to_contain_text("First open the label map that it belongs to, with a longest side of 128.")
    blank.drop(tmp_path / "huge.png")
    expect(message).to_contain_text("huge.png: is 20000x20000, more than the 89478485 pixels")


def test_a_wrong_file_is_a_message(browser: Browser, facades: Trained, engine: str, tmp_path: Path) -> None:
    wrong: list[tuple[str, Callable[[Path], object], str]] = [
        ("notes.txt", lambda path: path.write_text("hello"), "notes.txt: is no PNG. Save the label map as a PNG"),
        ("photo.jpg", lambda path: save_image(path, GREY), 'A photograph is laid under the drawing by "Trace…".'),
        ("photo.png", lambda path: save_image(path, GREY), "holds RGB colours, expected class"),
        ("ids.png", lambda path: save_image(path, np.full((4, 4), 99, np.uint8)), "(row 0, column 0) holds id 99"),
        ("cut.png", save_cut_off, "is damaged"),
        ("empty.png", lambda path: path.write_bytes(b""), "empty.png: is no PNG"),
    ]
    with page_of(browser, facades, engine) as page:
        before = page.pixels("source")
        for name, make, message in wrong:
            make(tmp_path / name)
            page.drop(tmp_path / name)
            text = page.page.locator("#message span")
            expect(text).to_contain_text(name)
            expect(text).to_contain_text(message)
            assert np.array_equal(page.pixels("source"), before)
        page.page.locator("#message button").click()
        expect(page["message"]).to_be_hidden()


def test_photographs_are_dropped_drawn_on_and_saved(
    browser: Browser, photos: Trained, engine: str, tmp_path: Path
) -> None:
    photo = np.random.default_rng(1).integers(0, 256, (30, 41, 3), dtype=np.uint8)
    save_image(tmp_path / "photo.png", photo)
    large = np.random.default_rng(2).integers(0, 256, (61, 121, 3), dtype=np.uint8)
    save_image(tmp_path / "large.png", large)
    (tmp_path / "broken.png").write_bytes(b"x")
    save_grey_png(tmp_path / "huge.png", 20000, 20000, zlib.compress(b""))
    with page_of(browser, photos, engine) as page:
        assert page.pixels("source").shape == (40, 48, 3)  # the sample of the test split
        page.drop(tmp_path / "photo.png")
        page.wait_for_file(width=41)
        assert np.array_equal(page.pixels("source"), photo)
        page.choose("black")
        page.drag((5, 5), (20, 20))
        assert (page.pixels("source")[12, 12] == 0).all()
        (source,) = page.download("save", tmp_path)
        found = page.pixels("result").astype(int)
        page.drop(tmp_path / "broken.png")
        assert "broken.png: cannot be read as an image" in page.message()
        page.drop(tmp_path / "large.png")
        if engine == "server":  # a live page keeps the longest side of the training
            page.wait_for_file(width=48)
            assert page.pixels("source").shape == (24, 48, 3)
            assert "large.png: 121x61 was made smaller, to 48x24" in page.message()
        else:
            page.wait_for_file(width=121)
            assert np.array_equal(page.pixels("source"), large)
            expect(page["message"]).to_be_hidden()
            whole = page.pixels("result").astype(int)
            assert abs(whole - translated_by_test_py(photos, tmp_path / "large.png", None, tmp_path / "l")).max() <= 1
        page.drop(tmp_path / "huge.png")
        expect(page.page.locator("#message span")).to_contain_text("huge.png: is 20000x20000, more than the 89478485")
    expected = translated_by_test_py(photos, source, None, tmp_path)
    assert expected.std() > 10
    assert abs(found - expected).max() <= 1


def test_the_camera_is_translated_continuously(browser: Browser, photos: Trained, engine: str) -> None:
    with page_of(browser, photos, engine) as page:
        drawn = page.pixels("source")
        button = page["camera"]
        button.click()
        expect(button).to_have_attribute("aria-pressed", "true")
        page.page.wait_for_timeout(700)
        first = page.pixels("result")
        page.page.wait_for_timeout(1500)
        second = page.pixels("result")
        assert first.shape != second.shape or (first != second).any()
        button.click()
        expect(button).to_have_attribute("aria-pressed", "false")
        page.wait()
        still = page.pixels("source")
        page.page.wait_for_timeout(300)
        assert np.array_equal(page.pixels("source"), still)
        page["undo"].click()
        page.wait()
        assert np.array_equal(page.pixels("source"), drawn)
        expect(page["undo"]).to_be_disabled()


def test_a_sample_that_cannot_be_read_leaves_a_page_that_works(browser: Browser, photos: Trained) -> None:
    test_split = photos.run.parents[1] / "pairs" / "test"
    (test_split / "0.png").write_bytes(b"no image")
    try:
        with page_of(browser, photos, "server") as page:
            assert "0.png" in page.message()
            page.drag((5, 5), (20, 20))
            assert page.pixels("result").shape == page.pixels("source").shape
    finally:
        (test_split / "0.png").unlink()


def test_the_newest_choice_wins_over_a_slow_one(blank: Opened) -> None:
    def answer_late(route: Route) -> None:
        blank.page.wait_for_timeout(800)
        route.continue_()

    blank.page.route("**/samples/1", answer_late)
    blank["samples"].select_option(index=2)
    blank["samples"].select_option(index=3)
    blank.page.wait_for_timeout(2500)
    newest = blank.pixels("source")
    expect(blank["samples"]).to_have_value("2")
    blank["samples"].select_option(index=1)
    blank.page.wait_for_timeout(300)
    blank["samples"].select_option(index=3)
    blank.page.wait_for_timeout(500)
    assert np.array_equal(blank.pixels("source"), newest)


def test_what_is_transparent_becomes_paper(browser: Browser, photos: Trained, tmp_path: Path) -> None:
    pencil = np.zeros((8, 9, 4), np.uint8)
    pencil[3, 2:7, 3] = 255  # a black line on nothing
    save_image(tmp_path / "pencil.png", pencil)
    with page_of(browser, photos, "server") as page:
        page.drop(tmp_path / "pencil.png")
        page.wait_for_file(width=9)
        assert np.array_equal(page.pixels("source")[..., 0] == 0, pencil[..., 3] > 0)


def test_bytes_after_the_pixels_do_no_harm(blank: Opened, tmp_path: Path) -> None:
    """Pillow reads such files too."""
    labels = np.random.default_rng(3).integers(0, N_CLASSES, (7, 6), dtype=np.uint8)
    rows = b"".join(b"\0" + row.tobytes() for row in labels)
    save_grey_png(tmp_path / "spare.png", 6, 7, zlib.compress(rows) + b"xx")
    blank.drop(tmp_path / "spare.png")
    blank.wait_for_file(width=6)
    assert np.array_equal(blank.saved(tmp_path / "saved")[0], labels)


def test_a_camera_that_is_switched_off_while_it_starts_stays_off(browser: Browser, photos: Trained) -> None:
    with page_of(browser, photos, "server") as page:
        page["camera"].evaluate("button => { button.click(); button.click(); }")
        page.page.wait_for_timeout(800)
        expect(page["camera"]).to_have_attribute("aria-pressed", "true")
        page["camera"].click()
        page.drag((5, 5), (20, 20))
        still = page.pixels("source")
        page.page.wait_for_timeout(500)
        assert np.array_equal(page.pixels("source"), still)


def test_an_image_can_be_chosen_or_pasted(browser: Browser, photos: Trained, tmp_path: Path) -> None:
    image = np.random.default_rng(2).integers(0, 256, (9, 11, 3), dtype=np.uint8)
    for name, width in (("chosen.png", 11), ("pasted.png", 8)):
        save_image(tmp_path / name, image[:, :width])
    with page_of(browser, photos, "server") as page:
        page["file"].set_input_files(tmp_path / "chosen.png")
        page.wait_for_file(width=11)
        assert np.array_equal(page.pixels("source"), image)
        page.page.locator("html").evaluate(
            """(_, bytes) => {
                const clipboardData = new DataTransfer();
                clipboardData.items.add(new File([new Uint8Array(bytes)], "pasted.png"));
                document.dispatchEvent(new ClipboardEvent("paste", {clipboardData}));
            }""",
            list((tmp_path / "pasted.png").read_bytes()),
        )
        page.wait_for_file(width=8)
        assert np.array_equal(page.pixels("source"), image[:, :8])


@pytest.fixture(scope="module", params=[4, 0.5])
def scaled(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[Trained, float]:
    scale = float(request.param)
    config = write_tiny_config(tmp_path_factory.mktemp("scaled"))
    rng = np.random.default_rng(0)
    for split in ("train", "test"):
        for side, times in (("A", 1), ("B", scale)):
            pixels = rng.integers(0, 256, (round(24 * times), round(40 * times), 3), dtype=np.uint8)
            save_image(config.parent / "pairs" / f"{split}_{side}" / "1.png", pixels)
    data = ("data.layout=paired_folders", f"data.root={config.parent / 'pairs'}", "data.instance_edges=false")
    return exported(config, *data, f"generator.scale={scale}"), scale


def test_the_result_has_the_size_of_the_target(
    browser: Browser, scaled: tuple[Trained, float], engine: str, tmp_path: Path
) -> None:
    trained, scale = scaled
    with page_of(browser, trained, engine) as page:
        source, result, over = (page.pixels(name) for name in ("source", "result", "over"))
        (saved,) = page.download("save", tmp_path)
        (picture,) = page.download("download", tmp_path)
    assert source.shape == (24, 40, 3)
    assert result.shape == over.shape == (round(24 * scale), round(40 * scale), 3)
    if scale > 1:
        assert np.array_equal(over, source.repeat(round(scale), 0).repeat(round(scale), 1))
    assert np.array_equal(read(picture), result)
    expected = translated_by_test_py(trained, saved, None, tmp_path)
    assert expected.std() > 10
    assert abs(result.astype(int) - expected).max() <= 1
