"""Images that are read and written row by row are those of the whole file."""

import io
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from data.batch import DataError
from data.files.pixel_rows import Bands, PixelRows, npy_rows, write_npy_rows, write_png_rows
from data.files.size_guard import pixels_allowed
from data.files.tiff_image import open_tiff
from data.files.tiff_writer import write_tiff
from tests.images import bands, tifffile

SEPARATE = {"planarconfig": "separate"}
TIFFS: dict[str, dict[str, Any]] = {
    "one strip": {},
    "planes": SEPARATE,
    "strips": {"rowsperstrip": 5, "compression": "zlib"},
    "strips of planes": SEPARATE | {"rowsperstrip": 7, "compression": "zlib"},
    "tiles": {"tile": (16, 16)},
    "tiles of planes": SEPARATE | {"tile": (16, 32), "compression": "zlib"},
    "with predictor": {"compression": "zlib", "predictor": 2, "rowsperstrip": 9},
    "another byte order": {"byteorder": ">", "rowsperstrip": 3, "compression": "zlib"},
    "uncompressed, another byte order": {"byteorder": ">", "bigtiff": True},
}


def tiff(pixels: np.ndarray, **options: Any) -> io.BytesIO:
    """An open TIFF file."""
    tifffile().imwrite(file := io.BytesIO(), pixels, **options)
    file.seek(0)
    return file


def tiff_rows(file: io.BytesIO) -> PixelRows:
    return open_tiff(file, "x.tif").rows(0)


def assert_rows(rows: PixelRows, expected: np.ndarray) -> None:
    """Parts of the rows are those expected, read without the others."""
    assert rows.shape == expected.shape
    with pixels_allowed(1):  # of an image that is read at once
        for top, bottom in [(0, 32), (0, 1), (5, 6), (7, 29), (31, 32)]:
            assert np.array_equal(rows.read(top, bottom), expected[:, top:bottom])


@pytest.mark.parametrize("name", TIFFS)
def test_rows_of_a_tiff(name: str) -> None:
    options = {"planarconfig": "contig"} | TIFFS[name]
    stored = bands(0) if options["planarconfig"] == "separate" else bands(0).transpose(1, 2, 0)
    assert_rows(tiff_rows(tiff(stored, photometric="minisblack", **options)), bands(0))


@pytest.mark.parametrize("options", [{}, {"compression": "zlib", "rowsperstrip": 5}])
def test_rows_of_pages(options: dict[str, Any]) -> None:
    with tifffile().TiffWriter(file := io.BytesIO()) as written:
        for page in bands(0):
            written.write(page, contiguous=False, metadata=None, **options)
    file.seek(0)
    assert_rows(tiff_rows(file), bands(0))


def test_strips_too_large_for_parts_are_read_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("data.files.tiff_samples._MAX_SEGMENT_BYTES", 5)
    rows = tiff_rows(tiff(bands(0)[0], compression="zlib"))
    with pixels_allowed(5), pytest.raises(DataError, match=r"x\.tif: 40x32 pixels take .*, more than 5 pixels"):
        rows.read(3, 9)
    assert np.array_equal(rows.read(3, 9), bands(0)[:1, 3:9])


def test_left_out_and_damaged_strips() -> None:
    content = bytearray(tiff(bands(0)[0], compression="zlib", rowsperstrip=8).getvalue())
    page = tifffile().TiffFile(io.BytesIO(content)).pages[0]
    counts = page.tags["StripByteCounts"].valueoffset
    content[counts : counts + 2] = bytes(2)  # of the first strip, which is left out
    content[page.dataoffsets[2] : page.dataoffsets[2] + 9] = bytes(9)
    rows = tiff_rows(io.BytesIO(content))
    assert not rows.read(0, 8).any()
    assert np.array_equal(rows.read(8, 16), bands(0)[:1, 8:16])
    with pytest.raises(DataError, match=r"^x\.tif: cannot be read as TIFF: "):
        rows.read(10, 17)


@pytest.mark.parametrize("save", [np.asfortranarray, np.ascontiguousarray])
@pytest.mark.parametrize("axes", [(0, 1, 2), (1, 2, 0)])
def test_rows_of_an_array(axes: tuple[int, ...], save: Callable[[np.ndarray], np.ndarray]) -> None:
    np.save(file := io.BytesIO(), save(bands(0).transpose(axes)).astype(">u2"))
    file.seek(0)
    rows = npy_rows(file, "x.npy", 4)
    assert np.array_equal(rows.read(7, 29), bands(0)[:, 7:29])  # of Fortran's order all are read
    assert_rows(rows, bands(0))


def test_an_array_that_becomes_shorter_is_named() -> None:
    np.save(file := io.BytesIO(), bands(0))
    file.seek(0)
    rows = npy_rows(file, "x.npy", 4)
    file.truncate(500)
    with pytest.raises(DataError, match=r"x\.npy: has become shorter while it was read"):
        rows.read(0, 32)


def in_parts(pixels: np.ndarray) -> Bands:
    parts = (pixels[:, top:bottom] for top, bottom in pairwise([0, 1, 12, 13, 30, 32]))
    return Bands(pixels.shape, pixels.dtype, parts)


@pytest.mark.parametrize("n_channels", [1, 3, 4])
@pytest.mark.parametrize("dtype", [np.uint8, np.uint16, np.float32])
def test_files_of_rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, dtype: type, n_channels: int) -> None:
    for module in ("tiff_writer", "pixel_rows"):
        monkeypatch.setattr(f"data.files.{module}._STRIP_BYTES", 1000)
    pixels: np.ndarray = bands(0)[:n_channels].astype(dtype)
    write_npy_rows(tmp_path / "x.npy", in_parts(pixels))
    assert np.array_equal(np.load(tmp_path / "x.npy"), pixels)
    write_tiff(tmp_path / "x.tif", in_parts(pixels))
    read = tifffile().imread(tmp_path / "x.tif")
    assert np.array_equal(read.reshape(32, 40, -1).transpose(2, 0, 1), pixels)
    if dtype != np.float32:
        write_png_rows(tmp_path / "x.png", in_parts(pixels))
        write_png_rows(tmp_path / "whole.png", Bands.of(pixels))
        with Image.open(tmp_path / "x.png") as image, Image.open(tmp_path / "whole.png") as other:
            assert np.array_equal(np.asarray(image), np.asarray(other))
            if dtype == np.uint8:
                assert np.array_equal(np.asarray(image).reshape(32, 40, -1), pixels.transpose(1, 2, 0))


def test_a_large_tiff_has_wide_positions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for limit, is_big in ((2**32, False), (1000, True)):
        monkeypatch.setattr("data.files.tiff_writer._MAX_CLASSIC_BYTES", limit)
        write_tiff(tmp_path / "x.tif", in_parts(bands(0)))
        with tifffile().TiffFile(tmp_path / "x.tif") as file:
            assert file.is_bigtiff == is_big
            assert np.array_equal(file.asarray().transpose(2, 0, 1), bands(0))
