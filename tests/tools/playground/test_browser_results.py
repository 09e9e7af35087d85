"""Styles and results on the page in a real browser: chosen, kept, and as files that hold their source."""

import json
import re
import struct
import zlib
from itertools import combinations
from pathlib import Path

import numpy as np
import pytest
from playwright.sync_api import Browser, Route, expect
from scipy import ndimage

from tests.conftest import save_image, write_tiny_config
from tests.runs import STYLE, untrained_run
from tests.tools.playground.pages import SIZE, Opened, Trained, exported, opened, page_of, read, serving

pytestmark = pytest.mark.browser


def test_a_result_opens_again_with_its_source_on_another_page(
    browser: Browser, facades: Trained, engine: str, tmp_path: Path
) -> None:
    with page_of(browser, facades, engine) as page:
        page.choose("window")
        page.page.locator("summary").click()
        page["instances"].select_option("stroke")
        page.drag((10, 10), (30, 12))
        page.drag((10, 14), (30, 16))  # two instances that touch
        source, result = page.pixels("source"), page.pixels("result")
        (file,) = page.download("download-both", tmp_path)
    assert np.array_equal(read(file), result)
    with page_of(browser, facades, engine) as page:
        assert (page.pixels("source") != source).any()
        page.drop(file)
        page.wait_for_file()
        assert np.array_equal(page.pixels("source"), source)
        assert np.array_equal(page.pixels("result"), result)
        page.click("undo")
        page.wait()
        assert (page.pixels("source") != source).any()


def test_samples_are_chosen_and_results_kept_over_a_reload_until_they_are_removed(
    browser: Browser, facades: Trained, engine: str, tmp_path: Path
) -> None:
    with page_of(browser, facades, engine) as page:
        figures = page.page.locator("#gallery figure")
        source, result = page.pixels("source"), page.pixels("result")
        expect(page["seed-choice"]).to_be_hidden()  # this network takes none
        expect(page["camera"]).to_be_hidden()
        page.click("keep")
        page.choose_sample(2)
        assert (page.pixels("source") != source).any()
        assert (page.pixels("result") != result).any()
        page.click("keep")
        expect(figures).to_have_count(2)
        page.page.reload()
        page.wait()
        expect(figures).to_have_count(2)
        figures.nth(1).get_by_role("button", name="Open", exact=True).click()
        page.wait_for_file()
        assert np.array_equal(page.pixels("source"), source)
        assert np.array_equal(page.pixels("result"), result)
        with page.page.expect_download() as download:
            figures.nth(1).get_by_role("button", name="Download").click()
        download.value.save_as(tmp_path / "kept.png")
        figures.nth(1).get_by_role("button", name="Remove").click()
        expect(figures).to_have_count(1)
        page.page.reload()
        page.wait()
        expect(figures).to_have_count(1)
    assert np.array_equal(read(tmp_path / "kept.png"), result)


def test_kept_results_are_shown_by_small_pictures(browser: Browser, facades: Trained, engine: str) -> None:
    sides = "image => image.decode().then(() => [image.naturalWidth, image.naturalHeight])"
    with page_of(browser, facades, engine) as page:
        page.click("keep")
        page.page.locator("summary").click()
        page["width"].fill("400")
        page["height"].fill("520")
        page.click("new")
        page.wait_for_file(width=400)
        page.click("keep")
        images = page.page.locator("#gallery img")
        for _ in range(2):
            expect(images).to_have_count(2)
            assert [image.evaluate(sides) for image in images.all()] == [[200, 260], [SIZE, SIZE]]
            page.page.reload()
            page.wait()


def test_photographs_are_kept_with_their_results(browser: Browser, photos: Trained, tmp_path: Path) -> None:
    with page_of(browser, photos, "server") as page:
        page.drag((5, 5), (20, 20))
        source = page.pixels("source")
        (file,) = page.download("download-both", tmp_path)
        page.click("clear")
        page.drop(file)
        page.wait_for_file()
        assert np.array_equal(page.pixels("source"), source)


def changed(content: bytes, **facts: object) -> bytes:
    """Return the file of a result with other facts, and the right checksum."""
    at = content.index(b"paIR") - 4
    length, n_facts = struct.unpack(">I4xI", content[at : at + 12])
    start, end = at + 12, at + 8 + length
    text = json.dumps(json.loads(content[start : start + n_facts]) | facts).encode()
    body = b"paIR" + struct.pack(">I", len(text)) + text + content[start + n_facts : end]
    chunk = struct.pack(">I", len(body) - 4) + body + struct.pack(">I", zlib.crc32(body))
    return content[:at] + chunk + content[end + 4 :]


def test_a_damaged_result_is_a_message(blank: Opened, photos: Trained, browser: Browser, tmp_path: Path) -> None:
    (file,) = blank.download("download-both", tmp_path)
    content, before = file.read_bytes(), blank.pixels("source")
    flipped = bytearray(content)
    flipped[content.index(b"paIR") + 40] ^= 1
    for name, damaged, message in (
        ("flipped.png", bytes(flipped), "flipped.png: is damaged. Save it again as PNG."),
        ("cut.png", content[: content.index(b"paIR") + 60], "cut.png: is damaged."),
        ("larger.png", changed(content, width=65), "larger.png: is damaged."),
        ("text.png", changed(content, width="64"), "text.png: is damaged."),
        ("empty.png", changed(content, width=0), "empty.png: is damaged."),
        ("beyond.png", changed(content, percent=101), "beyond.png: is damaged."),
        ("later.png", changed(content, version=2), "later.png: is of a later version of this page."),
        ("huge.png", changed(content, width=99999, height=99999), "huge.png: its source is 99999x99999, a picture has"),
    ):
        (tmp_path / name).write_bytes(damaged)
        blank.drop(tmp_path / name)
        expect(blank.page.locator("#message span")).to_have_text(re.compile(re.escape(message)))
        assert np.array_equal(blank.pixels("source"), before)
    (tmp_path / "other.png").write_bytes(changed(content, of="another run, step 7"))
    blank.drop(tmp_path / "other.png")
    assert "other.png: was translated by another run, step 7." in blank.message()
    with page_of(browser, photos, "server") as page:  # an image like any other
        page.drop(file)
        page.wait_for_file()
        assert page.pixels("source").shape == (48, 48, 3)
        (result,) = page.download("download-both", tmp_path / "photos")
    blank.drop(result)
    expect(blank.page.locator("#message span")).to_contain_text("is a result of a network of images, this one takes")


def test_a_slow_network_translates_a_quarter_of_the_pixels_while_one_draws(blank: Opened) -> None:
    asked: list[str] = []
    held: list[Route] = []

    def answer(route: Route) -> None:
        """Answer the first late, drafts and the last at once, and hold the whole picture that a pause asks for."""
        asked.append(re.sub(r".*width=(\d+)&height=(\d+).*", r"\1x\2", route.request.url))
        if asked[-1] == "64x64" and len(asked) > 1 and not held:
            held.append(route)
            return
        blank.page.wait_for_timeout(250 if len(asked) == 1 else 0)
        route.continue_()

    blank.page.route("**/translate*", answer)
    blank.click("clear")  # by which the page measures the time of a translation
    blank.choose("window")
    box, mouse = blank.box("source"), blank.page.mouse
    mouse.move(box["x"] + 50, box["y"] + 50)
    mouse.down()
    for step in range(3):
        mouse.move(box["x"] + 60 + 50 * step, box["y"] + 60)
    expect(blank["keep"]).to_be_disabled()
    assert asked[1] == "32x32"
    while not held:  # a pause within the stroke
        blank.page.wait_for_timeout(50)
    held[0].continue_()
    expect(blank["keep"]).to_be_enabled()
    mouse.move(box["x"] + 300, box["y"] + 300)
    mouse.up()
    blank.wait()
    assert asked[-1] == "64x64"
    assert blank.pixels("result").shape == (64, 64, 3)
    expect(blank["keep"]).to_be_enabled()
    blank.page.unroute("**/translate*")


def test_an_opened_label_map_has_the_connected_parts_as_instances(
    browser: Browser, facades: Trained, engine: str, tmp_path: Path
) -> None:
    labels = np.random.default_rng(4).integers(0, 3, (23, 37), dtype=np.uint8)
    save_image(tmp_path / "labels.png", labels)
    with page_of(browser, facades, engine) as page:
        page.drop(tmp_path / "labels.png")
        page.wait_for_file(width=37)
        _, instances = page.saved(tmp_path)
    parts = np.zeros_like(instances)
    for kind in range(3):
        found, n = ndimage.label(labels == kind, np.ones((3, 3)))
        parts[found > 0] = found[found > 0] + parts.max()
        assert len(np.unique(instances[labels == kind])) == n
    pairs = np.unique(np.stack([parts.ravel(), instances.ravel()]), axis=1)
    assert pairs.shape[1] == parts.max() == len(np.unique(instances))


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
    page.drop(file)
    page.wait_for_file()
    assert np.array_equal(page.pixels("result"), middle)
    expect(page["percent"]).to_have_value("50")
    return [first, third, middle]


def test_a_style_is_chosen_by_its_small_translation_and_is_the_same_on_both_pages(
    browser: Browser, tmp_path: Path
) -> None:
    channels = ("generator.noise_channels=20", "style.channels=4")  # torch draws fewer than 16 values in another way
    size = (f"data.synthetic.height={SIZE}", f"data.synthetic.width={SIZE}")
    styled = exported(write_tiny_config(tmp_path), *STYLE, *channels, *size)
    seen = []
    for name in ("server", "file"):
        with page_of(browser, styled, name) as page:
            seen.append(styles_seen(page, tmp_path / name))
    for one, other in combinations(seen[0], 2):
        assert np.abs(one.astype(int) - other).max() > 4
    for by_server, in_page in zip(*seen, strict=True):
        assert np.abs(by_server.astype(int) - in_page).max() <= 1


def test_a_result_names_the_photographs_that_its_style_was_chosen_from(browser: Browser, tmp_path: Path) -> None:
    run = untrained_run(write_tiny_config(tmp_path), *STYLE)
    photographs = [tmp_path / name for name in ("dawn.png", "night.png")]
    for level, photograph in enumerate(photographs):
        save_image(photograph, np.full((SIZE, SIZE, 3), 200 * level, np.uint8))
    command = ("--checkpoint", str(run))
    styles = [f"--style={photograph}" for photograph in photographs]
    with serving(*command, *styles) as server, opened(browser, server.url) as page:
        (file,) = page.download("download-both", tmp_path / "by_photographs")
    with serving(*command) as server, opened(browser, server.url) as page:  # whose styles are those of seeds
        page.drop(file)
        page.wait_for_file()
        assert "step 1, dawn.png, night.png." in page.message()
