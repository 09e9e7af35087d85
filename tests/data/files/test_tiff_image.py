"""A TIFF is read as its tags say."""

import io
import re
import tracemalloc
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

from data.batch import DataError
from data.files.image_files import (
    StoredForm,
    is_8_bit_rgb,
    open_image,
    read_ids,
    read_palette,
    read_pixels,
    read_rgb,
    read_stored,
    read_weights,
)
from data.files.stored_image import MAX_SCANS
from data.files.tiff_image import TiffImage
from tests.images import tifffile
from tests.jpegs import jpeg, scans
from tests.reliability.images import TURNED

RNG = np.random.default_rng(0)
GREY = RNG.integers(0, 256, (24, 32), np.uint8)
DEEP = RNG.integers(1000, 2024, (24, 32, 3), np.uint16)
COLORS = RNG.integers(0, 256, (24, 32, 3), np.uint8)
FOUR = RNG.integers(0, 256, (24, 32, 4), np.uint8)
ORIENTATION = 274


def tiff(folder: Path, pixels: np.ndarray, photometric: str = "minisblack", **options: Any) -> Path:
    """Write a TIFF with tifffile."""
    tags = {"planarconfig": "contig"} if pixels.ndim == 3 else {}
    tifffile().imwrite(folder / "x.tif", pixels, photometric=photometric, metadata=None, **(tags | options))
    return folder / "x.tif"


def pillow_tiff(folder: Path, image: Image.Image, compression: str, **tags: Any) -> Path:
    """Write a TIFF with Pillow."""
    image.save(folder / "x.tif", compression=compression, **tags)
    return folder / "x.tif"


def assert_pixels(path: Path, expected: np.ndarray) -> None:
    """The file holds (H, W) or (H, W, C) pixels."""
    found = read_pixels(path, 0).numpy()
    assert found.dtype == expected.dtype
    assert np.array_equal(found, np.atleast_3d(expected).transpose(2, 0, 1))


@pytest.mark.parametrize("orientation", TURNED)
def test_images_are_upright(tmp_path: Path, orientation: int) -> None:
    stored = np.ascontiguousarray(TURNED[orientation])
    path = pillow_tiff(tmp_path, Image.fromarray(stored), "tiff_lzw", tiffinfo={ORIENTATION: orientation})
    assert np.array_equal(read_rgb(path).permute(1, 2, 0).numpy(), TURNED[1])
    assert_pixels(path, TURNED[1])
    with open_image(path) as image:
        assert image.size == TURNED[1].shape[:2]


LAYOUTS: dict[str, dict[str, Any]] = {
    "planes": {"planarconfig": "separate", "byteorder": ">", "bigtiff": True},
    "strips": {"rowsperstrip": 5, "compression": "lzw", "predictor": 2, "byteorder": ">"},
    "tiles": {"tile": (16, 16)},
    "tiles of planes": {"planarconfig": "separate", "tile": (16, 32), "compression": "zlib"},
}


@pytest.mark.parametrize("name", LAYOUTS)
def test_colours_of_16_bits_keep_every_bit_in_every_layout(tmp_path: Path, name: str) -> None:
    stored = DEEP.transpose(2, 0, 1) if LAYOUTS[name].get("planarconfig") else DEEP
    path = tiff(tmp_path, stored, "rgb", **LAYOUTS[name])
    assert_pixels(path, DEEP)
    assert not is_8_bit_rgb(path)
    assert np.array_equal(read_rgb(path).permute(1, 2, 0).numpy(), DEEP >> 8)


def test_pages_are_channels(tmp_path: Path) -> None:
    with tifffile().TiffWriter(tmp_path / "x.tif") as file:
        for channel in DEEP.transpose(2, 0, 1):
            file.write(channel, contiguous=False, metadata=None, compression="zlib", rowsperstrip=5)
    assert_pixels(tmp_path / "x.tif", DEEP)


def test_where_0_is_white_values_are_inverted(tmp_path: Path) -> None:
    assert_pixels(tiff(tmp_path, ~DEEP[..., 0], "miniswhite", compression="zlib"), DEEP[..., 0])
    path = tiff(tmp_path, ~GREY, "miniswhite")
    assert np.array_equal(read_rgb(path)[0].numpy(), GREY)
    assert np.array_equal(read_ids(path)[0].numpy(), GREY)
    mask = GREY > 127
    for compression in ("raw", "group4"):
        path = pillow_tiff(tmp_path, Image.fromarray(mask), compression, tiffinfo={262: 0})
        assert np.array_equal(read_weights(path)[0].numpy(), mask * 255)


def test_signed_bytes_do_not_wrap(tmp_path: Path) -> None:
    path = tiff(tmp_path, np.array([[-1, 3], [-128, 127]], np.int8))
    assert read_ids(path).tolist() == [[[-1, 3], [-128, 127]]]
    assert read_pixels(path, 1).tolist() == [[[-1, 3], [-128, 127]]]
    assert not is_8_bit_rgb(path)
    with pytest.raises(DataError, match=r"holds signed 8-bit integers, expected an 8- or 16-bit image; .*folders"):
        read_rgb(path)


def test_thumbnails_and_masks_are_not_the_image(tmp_path: Path) -> None:
    options = {"metadata": None, "compression": "zlib"}
    with tifffile().TiffWriter(tmp_path / "x.tif") as file:
        file.write(COLORS[::4, ::4], photometric="rgb", subfiletype=1, **options)
        file.write(GREY > 127, photometric="mask", subfiletype=4, **options)
        file.write(COLORS, photometric="rgb", **options)
    assert_pixels(tmp_path / "x.tif", COLORS)
    assert_pixels(tiff(tmp_path, GREY, subfiletype=1), GREY)  # the only page counts as the image


@pytest.mark.parametrize(
    ("mode", "compression"),
    [("1", "raw"), ("L", "packbits"), ("P", "raw"), ("RGB", "tiff_deflate"), ("CMYK", "tiff_lzw")],
)
def test_photographs_have_the_pixels_that_pillow_reads(tmp_path: Path, mode: str, compression: str) -> None:
    image = Image.fromarray(COLORS)
    image = image.quantize(16) if mode == "P" else image.convert(mode)
    path = pillow_tiff(tmp_path, image, compression)
    expected = np.asarray(image.convert("RGB"))
    assert np.array_equal(read_rgb(path).permute(1, 2, 0).numpy(), expected)
    assert_pixels(path, expected[..., 0] if mode in "1L" else expected)
    assert is_8_bit_rgb(path)
    if mode == "P":
        assert np.array_equal(read_ids(path)[0].numpy(), np.asarray(image))
        assert read_palette(path) == bytes(image.getpalette() or ()).rstrip(b"\0")


@pytest.mark.parametrize("mode", ["RGB", "YCbCr"])
def test_jpeg_in_tiff_is_rgb(tmp_path: Path, mode: str) -> None:
    smooth = Image.fromarray(COLORS[::12, ::16]).resize((32, 24), Image.Resampling.BICUBIC)
    path = pillow_tiff(tmp_path, smooth.convert(mode), "jpeg", quality=95)
    expected = np.asarray(smooth.convert(mode).convert("RGB"))
    assert np.abs(read_rgb(path).permute(1, 2, 0).numpy().astype(int) - expected).max() < 16
    with pytest.raises(DataError, match=r"JPEG changes ids|expected one integer id per pixel"):
        read_ids(path)


def test_transparency_is_told_from_other_channels(tmp_path: Path) -> None:
    def saved(kind: str) -> Path:
        return tiff(tmp_path, FOUR, "rgb", extrasamples=[kind], compression="zlib")

    path = saved("unassalpha")
    assert is_8_bit_rgb(path)
    assert np.array_equal(read_pixels(path, 3).numpy(), FOUR[..., :3].transpose(2, 0, 1))
    assert_pixels(path, FOUR)
    path = saved("unspecified")  # near infrared, for instance
    assert not is_8_bit_rgb(path)
    assert len(read_pixels(path, 3)) == 4
    path, divided = saved("assocalpha"), Image.frombytes("RGBa", (32, 24), FOUR.tobytes()).convert("RGBA")
    assert_pixels(path, np.asarray(divided) * (FOUR[..., 3:] > 0))


REFUSED: dict[str, tuple[np.ndarray, str, str]] = {
    "lab": (COLORS, "cielab", "holds CIELab pixels. Save it as grey or RGB"),
    "white floats": (GREY.astype(np.float32), "miniswhite", "holds grey pixels of 1 samples, float32. Save it as"),
    "complex": (GREY.astype(np.complex64), "minisblack", "holds complex64, expected integers or floats"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_other_pixels_are_refused_in_one_line(tmp_path: Path, name: str) -> None:
    pixels, photometric, message = REFUSED[name]
    path = tiff(tmp_path, pixels, photometric)
    for read in (read_rgb, read_pixels):
        with pytest.raises(DataError, match=f"^{re.escape(str(path))}: {message}"):
            read(path)


def test_ids_that_no_integer_holds_are_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="holds the id 4294967295, expected ids of up to 31 bits"):
        read_ids(tiff(tmp_path, np.full((4, 5), 2**32 - 1, np.uint32)))
    assert read_ids(tiff(tmp_path, np.full((4, 5), 2**31 - 1, np.int64))).max() == 2**31 - 1


def test_channels_are_counted_before_pixels_are_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(TiffImage, "pixels", lambda *_: pytest.fail("pixels were read"))
    path = tiff(tmp_path, FOUR)
    with pytest.raises(DataError, match=r"has 4 channels, data\.source_channels is 2"):
        read_stored(path, StoredForm(2, "data.source_channels", is_8_bit=False))
    with pytest.raises(DataError, match="has 4 channels, expected 1"):
        read_weights(path)


def with_tags(path: Path, **values: int) -> Path:
    """Change the values of tags of a TIFF, whatever its pixels are."""
    content = bytearray(path.read_bytes())
    page = tifffile().TiffFile(io.BytesIO(content)).pages[0]
    for name, value in values.items():
        tag = page.tags[name]
        n_bytes = 2 if tag.dtype == 3 else 4
        content[tag.valueoffset : tag.valueoffset + n_bytes] = value.to_bytes(n_bytes, "little")
    path.write_bytes(content)
    return path


def with_first_strip(path: Path, strip: bytes) -> Path:
    """Replace the only strip of a TIFF."""
    place = path.stat().st_size
    path.write_bytes(path.read_bytes() + strip)
    return with_tags(path, StripOffsets=place, StripByteCounts=len(strip))


def test_strips_do_not_expand_beyond_their_size(tmp_path: Path) -> None:
    pixels = np.arange(4096, dtype=np.uint8).reshape(64, 64)
    path = with_first_strip(tiff(tmp_path, pixels, compression="zlib"), zlib.compress(bytes(10**7)))
    tracemalloc.start()
    with pytest.raises(DataError, match="cannot be read as an image"):
        read_rgb(path)
    assert tracemalloc.get_traced_memory()[1] < 10**6
    tracemalloc.stop()


@pytest.mark.parametrize(
    ("strip", "message"),
    [(lambda: jpeg(5000), "a JPEG with more pixels"), (lambda: scans(MAX_SCANS), "it has more than 100 scans")],
)
def test_a_jpeg_in_a_strip_is_bounded(tmp_path: Path, strip: Callable[[], bytes], message: str) -> None:
    path = with_first_strip(pillow_tiff(tmp_path, Image.fromarray(COLORS), "jpeg"), strip())
    with pytest.raises(DataError, match=message):
        read_rgb(path)


def test_sizes_are_those_of_the_file_before_memory_is_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    raw, strips, jpeg = (tmp_path / name for name in ("raw.tif", "strips.tif", "jpeg.tif"))
    tifffile().imwrite(raw, DEEP, photometric="rgb")
    raw.write_bytes(raw.read_bytes()[:-9])
    tifffile().imwrite(jpeg, COLORS, photometric="rgb", compression="jpeg", rowsperstrip=24)
    page = tifffile().TiffFile(io.BytesIO(jpeg.read_bytes())).pages[0]
    jpeg.write_bytes(jpeg.read_bytes()[: page.dataoffsets[-1] + page.databytecounts[-1] - 99])
    tifffile().imwrite(strips, COLORS, photometric="rgb", compression="zlib", rowsperstrip=24)
    with_tags(strips, ImageLength=5000)
    monkeypatch.setattr("data.files.tiff_image.pixel_array", lambda *_: pytest.fail("memory was taken"))
    for path, message in (
        (raw, r"it is cut off: it has \d+ of \d+ bytes"),
        (jpeg, r"it is cut off: it has \d+ of \d+ bytes"),
        (strips, "it has 1 of 209 strips or tiles"),
    ):
        with pytest.raises(DataError, match=message):
            read_rgb(path)


def test_left_out_strips_are_empty_and_damaged_ones_an_error(tmp_path: Path) -> None:
    path = tiff(tmp_path, GREY, compression="zlib", rowsperstrip=8)
    page = tifffile().TiffFile(io.BytesIO(path.read_bytes())).pages[0]
    content, counts = bytearray(path.read_bytes()), page.tags["StripByteCounts"].valueoffset
    content[counts : counts + 2] = bytes(2)  # no bytes: the first strip is left out
    path.write_bytes(content)
    assert_pixels(path, np.concatenate([np.zeros((8, 32), np.uint8), GREY[8:]]))
    content[page.dataoffsets[2] : page.dataoffsets[2] + 9] = bytes(9)
    path.write_bytes(content)
    with pytest.raises(DataError, match=r"x\.tif: cannot be read as an image: "):
        read_pixels(path)


def test_tiles_beyond_their_image_are_refused(tmp_path: Path) -> None:
    path = with_tags(tiff(tmp_path, COLORS, "rgb", tile=(16, 16)), TileWidth=20000, TileLength=20000)
    with pytest.raises(DataError, match=r"has tiles of 20000x20000 pixels\. Create it again"):
        read_rgb(path)


def test_a_stack_of_colour_images_is_refused(tmp_path: Path) -> None:
    tifffile().imwrite(tmp_path / "stack.tif", np.zeros((2, 3, 8, 9), np.uint16), photometric="minisblack")
    with pytest.raises(DataError, match=r"stack\.tif: has the shape .*, expected one image with its channels"):
        read_pixels(tmp_path / "stack.tif")


def test_a_tiff_is_known_by_its_content(tmp_path: Path) -> None:
    path = tiff(tmp_path, DEEP, "rgb").rename(tmp_path / "x.png")
    assert_pixels(path, DEEP)
    Image.fromarray(COLORS).save(tmp_path / "y.tif", format="PNG")
    assert torch.equal(read_rgb(tmp_path / "y.tif"), read_pixels(tmp_path / "y.tif", 3))


def test_files_of_many_pages_are_not_parsed_whole(tmp_path: Path) -> None:
    with tifffile().TiffWriter(tmp_path / "x.tif") as file:
        for _ in range(130):
            file.write(GREY[:4, :4], contiguous=False, metadata=None)
    assert np.array_equal(read_rgb(tmp_path / "x.tif")[0].numpy(), GREY[:4, :4])
    with pytest.raises(DataError, match=r"x\.tif: has more than 128 pages\. Save only the image"):
        read_pixels(tmp_path / "x.tif", 0)
