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
from data.files.array_file import npy_rows, write_npy_rows
from data.files.pixel_rows import Bands, LoadedRows
from data.files.png_file import write_png_rows
from data.files.size_guard import pixels_allowed
from data.files.tiff_file import tiff_rows, write_tiff_rows
from tests.images import bands, tifffile

STEPS = [(0, 32), (0, 1), (5, 6), (7, 29), (31, 32)]
TIFFS: dict[str, dict[str, Any]] = {
    "one strip": {},
    "planes": {"planarconfig": "separate"},
    "strips": {"rowsperstrip": 5, "compression": "zlib"},
    "strips of planes": {"planarconfig": "separate", "rowsperstrip": 7, "compression": "zlib"},
    "tiles": {"tile": (16, 16)},
    "tiles of planes": {"planarconfig": "separate", "tile": (16, 32), "compression": "zlib"},
    "with predictor": {"compression": "zlib", "predictor": 2, "rowsperstrip": 9},
    "another byte order": {"byteorder": ">", "rowsperstrip": 3, "compression": "zlib"},
    "uncompressed, another byte order": {"byteorder": ">", "bigtiff": True},
}


def tiff(pixels: np.ndarray, **options: Any) -> io.BytesIO:
    """An open TIFF file."""
    tifffile().imwrite(file := io.BytesIO(), pixels, **options)
    file.seek(0)
    return file


@pytest.mark.parametrize("name", TIFFS)
def test_rows_of_a_tiff(name: str) -> None:
    pixels, options = bands(0), {"planarconfig": "contig"} | TIFFS[name]
    stored = pixels if options["planarconfig"] == "separate" else pixels.transpose(1, 2, 0)
    rows = tiff_rows(tiff(stored, photometric="minisblack", **options), "x.tif")
    assert not isinstance(rows, LoadedRows)
    assert rows.shape == pixels.shape
    for top, bottom in STEPS:
        assert np.array_equal(rows.read(top, bottom), pixels[:, top:bottom])


@pytest.mark.parametrize("options", [{}, {"compression": "zlib", "rowsperstrip": 5}])
def test_rows_of_pages(options: dict[str, Any]) -> None:
    with tifffile().TiffWriter(file := io.BytesIO()) as written:
        for page in bands(0):
            written.write(page, contiguous=False, metadata=None, **options)
    file.seek(0)
    rows = tiff_rows(file, "x.tif")
    assert not isinstance(rows, LoadedRows)
    for top, bottom in STEPS:
        assert np.array_equal(rows.read(top, bottom), bands(0)[:, top:bottom])


def test_strips_too_large_for_parts_are_read_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("data.files.tiff_file._MAX_SEGMENT_BYTES", 5)
    rows = tiff_rows(tiff(bands(0)[0], compression="zlib"), "x.tif")
    assert isinstance(rows, LoadedRows)
    assert np.array_equal(rows.read(3, 9), bands(0)[:1, 3:9])
    with pixels_allowed(5), pytest.raises(DataError, match=r"x\.tif: 40x32 pixels take .*, more than 5 pixels"):
        tiff_rows(tiff(bands(0)[0], compression="zlib"), "x.tif").read(3, 9)


def test_left_out_and_damaged_strips() -> None:
    file = tiff(bands(0)[0], compression="zlib", rowsperstrip=8)
    page = tifffile().TiffFile(file).pages[0]
    file.seek(0)
    rows = tiff_rows(file, "x.tif")
    rows.pages[0].databytecounts = (0, *page.databytecounts[1:])  # type: ignore[attr-defined]
    assert not rows.read(0, 8).any()
    content = bytearray(file.getvalue())
    content[page.dataoffsets[2] : page.dataoffsets[2] + 9] = bytes(9)
    damaged = tiff_rows(io.BytesIO(content), "x.tif")
    assert np.array_equal(damaged.read(0, 16), bands(0)[:1, :16])
    with pytest.raises(DataError, match=r"^x\.tif: cannot be read as TIFF: "):
        damaged.read(10, 17)


@pytest.mark.parametrize("save", [np.asfortranarray, np.ascontiguousarray])
@pytest.mark.parametrize("axes", [(0, 1, 2), (1, 2, 0)])
def test_rows_of_an_array(axes: tuple[int, ...], save: Callable[[np.ndarray], np.ndarray]) -> None:
    np.save(file := io.BytesIO(), save(bands(0).transpose(axes)).astype(">u2"))
    file.seek(0)
    rows = npy_rows(file, "x.npy", 4)
    for top, bottom in STEPS:
        assert np.array_equal(rows.read(top, bottom), bands(0)[:, top:bottom])


def test_an_array_that_becomes_shorter_is_named() -> None:
    np.save(file := io.BytesIO(), bands(0))
    file.seek(0)
    rows = npy_rows(file, "x.npy", 4)
    file.truncate(500)
    with pytest.raises(DataError, match=r"x\.npy: has become shorter while it was read"):
        rows.read(0, 32)


def in_parts(pixels: np.ndarray) -> Bands:
    edges = [0, 1, 12, 13, 30, 32]
    parts = (pixels[:, top:bottom] for top, bottom in pairwise(edges))
    return Bands(pixels.shape, pixels.dtype, parts)


@pytest.mark.parametrize("n_channels", [1, 3, 4])
@pytest.mark.parametrize("dtype", [np.uint8, np.uint16])
def test_a_png_of_rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, dtype: type, n_channels: int) -> None:
    monkeypatch.setattr("data.files.png_file._STRIP_BYTES", 1000)
    pixels: np.ndarray = bands(0)[:n_channels].astype(dtype)
    write_png_rows(tmp_path / "x.png", in_parts(pixels))
    whole = Bands.of(pixels)
    write_png_rows(tmp_path / "whole.png", whole)
    with Image.open(tmp_path / "x.png") as image, Image.open(tmp_path / "whole.png") as other:
        assert np.array_equal(np.asarray(image), np.asarray(other))
        if dtype == np.uint8:
            assert np.array_equal(np.asarray(image).reshape(32, 40, -1), pixels.transpose(1, 2, 0))


@pytest.mark.parametrize("n_channels", [1, 3, 4])
@pytest.mark.parametrize("dtype", [np.uint8, np.uint16, np.float32])
def test_arrays_and_tiffs_of_rows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, dtype: type, n_channels: int
) -> None:
    monkeypatch.setattr("data.files.tiff_file._STRIP_BYTES", 1000)
    pixels: np.ndarray = bands(0)[:n_channels].astype(dtype)
    write_npy_rows(tmp_path / "x.npy", in_parts(pixels))
    assert np.array_equal(np.load(tmp_path / "x.npy"), pixels)
    write_tiff_rows(tmp_path / "x.tif", in_parts(pixels))
    read = tifffile().imread(tmp_path / "x.tif")
    assert np.array_equal(read.reshape(32, 40, -1).transpose(2, 0, 1), pixels)


def test_a_large_tiff_has_wide_positions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for limit, is_big in ((2**32, False), (1000, True)):
        monkeypatch.setattr("data.files.tiff_file._MAX_CLASSIC_BYTES", limit)
        write_tiff_rows(tmp_path / "x.tif", in_parts(bands(0)))
        with tifffile().TiffFile(tmp_path / "x.tif") as file:
            assert file.is_bigtiff == is_big
            assert np.array_equal(file.asarray().transpose(2, 0, 1), bands(0))
