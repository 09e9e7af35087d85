"""Styles on the page, and results as files that hold their source."""

import json
import struct
import zlib
from pathlib import Path

import numpy as np
import pytest
from playwright.sync_api import Browser, expect

from tests.conftest import save_image, write_tiny_config
from tests.runs import STYLE
from tests.tools.playground.pages import SIZE, Opened, Trained, exported, opened, page_of, serving

pytestmark = pytest.mark.browser


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
        blank.assert_says(message)
        assert np.array_equal(blank.pixels("source"), before)
    (tmp_path / "other.png").write_bytes(changed(content, of="another run, step 7"))
    blank.drop(tmp_path / "other.png")
    blank.assert_says("other.png: was translated by another run, step 7.")
    with page_of(browser, photos, "server") as page:  # an image like any other
        page.open(file, width=48)
        assert page.pixels("source").shape == (48, 48, 3)
        (result,) = page.download("download-both", tmp_path / "photos")
    blank.drop(result)
    blank.assert_says("is a result of a network of images, this one takes")


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

    photographs = [tmp_path / name for name in ("dawn.png", "night.png")]
    for level, photograph in enumerate(photographs):
        save_image(photograph, np.full((SIZE, SIZE, 3), 200 * level, np.uint8))
    command = ("--checkpoint", str(styled.run))
    with serving(*command, *(f"--style={file}" for file in photographs)) as server, opened(browser, server.url) as page:
        (file,) = page.download("download-both", tmp_path / "by_photographs")
    with serving(*command) as server, opened(browser, server.url) as page:  # its styles belong to seeds
        page.drop(file)
        page.assert_says("step 1, dawn.png, night.png.")
