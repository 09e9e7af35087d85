"""The pages of RGB images, coloured label maps and styles, and results as files that hold their source."""

from io import BytesIO
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from playwright.sync_api import Browser, expect

from tests.conftest import save_image, write_tiny_config
from tests.runs import STYLE
from tests.tools.playground.pages import COLORS, SIZE, Opened, Trained, assert_as_test_py, exported, page_of, read

pytestmark = pytest.mark.browser


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
        page.assert_says("large.png: was shrunk from 121x61 to 48x24 pixels")
    else:
        whole = page.open(folder / "large.png", width=121)
        assert np.array_equal(page.pixels("source"), large)
        expect(page["message"]).to_be_hidden()
        assert_as_test_py(whole, photos, large, None, folder / "large")
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
    page["photo-file"].set_input_files(folder / "red.png")
    expect(page["photo"]).to_be_visible()
    page["opacity"].fill("40")
    shown = np.asarray(Image.open(BytesIO(page["source-stage"].screenshot())).convert("RGB"))
    assert np.allclose(shown[shown.shape[0] // 2, shown.shape[1] // 2], (255, 153, 153), atol=2)
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


def test_the_result_has_the_size_of_the_target(browser: Browser, tmp_path: Path) -> None:
    config, rng = write_tiny_config(tmp_path), np.random.default_rng(0)
    for split in ("train", "test"):
        for side, times in (("A", 1), ("B", 4)):
            pixels = rng.integers(0, 256, (24 * times, 40 * times, 3), dtype=np.uint8)
            save_image(tmp_path / "pairs" / f"{split}_{side}" / "1.png", pixels)
    data = ("data.layout=paired_folders", f"data.root={tmp_path / 'pairs'}", "data.instance_edges=false")
    trained = exported(config, *data, "generator.scale=4")
    with page_of(browser, trained, "file") as page:
        source, result, over = (page.pixels(name) for name in ("source", "result", "over"))
        (saved,) = page.download("save", tmp_path)
        (picture,) = page.download("download", tmp_path)
    assert source.shape == (24, 40, 3)
    assert result.shape == (96, 160, 3)
    assert np.array_equal(over, source.repeat(4, 0).repeat(4, 1))
    assert np.array_equal(read(picture), result)
    assert_as_test_py(result, trained, read(saved), None, tmp_path)


def test_a_damaged_result_is_a_message(blank: Opened, tmp_path: Path) -> None:
    (file,) = blank.download("download-both", tmp_path)
    content, before = file.read_bytes(), blank.pixels("source")
    flipped = bytearray(content)
    flipped[content.index(b"paIR") + 40] ^= 1
    for name, damaged in (("flipped.png", bytes(flipped)), ("cut.png", content[: content.index(b"paIR") + 60])):
        (tmp_path / name).write_bytes(damaged)
        blank.drop(tmp_path / name)
        blank.assert_says(f"{name}: is damaged.")
        assert np.array_equal(blank.pixels("source"), before)


def styles_seen(page: Opened, folder: Path) -> list[np.ndarray]:
    """Return the translations by seed 0, by seed 2, and in the middle between both."""
    first = page.pixels("result")
    choices = page.page.locator("#style-choices button")
    expect(choices).to_have_count(6)
    expect(choices.nth(5).locator("canvas")).to_have_attribute("width", str(SIZE))
    choices.nth(2).click()
    page.wait()
    third = page.pixels("result")
    expect(choices.nth(2)).to_have_attribute("aria-pressed", "true")
    expect(page["seed"]).to_have_value("2")
    expect(page["samples"]).to_have_value("0")
    page["other"].select_option("0")
    page.wait()
    middle = page.pixels("result")
    (file,) = page.download("download-both", folder)
    page.click("next-styles")
    expect(page["other"]).to_have_value("0")
    page["percent"].press("End")
    page.wait()
    assert np.array_equal(page.pixels("result"), first)
    page.click("dice")
    assert np.array_equal(page.open(file), middle)
    expect(page["percent"]).to_have_value("50")
    return [first, third, middle]


def test_a_style_is_chosen_by_its_small_translation_and_is_the_same_on_both_pages(
    browser: Browser, tmp_path: Path
) -> None:
    channels = ("generator.noise_channels=20", "style.channels=4")  # torch draws fewer than 16 values in another way
    size = (f"data.synthetic_size=[{SIZE},{SIZE}]",)
    styled = exported(write_tiny_config(tmp_path), *STYLE, *channels, *size)
    seen = []
    for name in ("server", "file"):
        with page_of(browser, styled, name) as page:
            seen.append(styles_seen(page, tmp_path / name))
            if name == "server":
                page.assert_no_barriers()
    first, third, middle = (image.astype(int) for image in seen[0])
    assert min(abs(first - third).max(), abs(first - middle).max(), abs(third - middle).max()) > 4
    for by_server, in_page in zip(*seen, strict=True):
        assert np.abs(by_server.astype(int) - in_page).max() <= 1
