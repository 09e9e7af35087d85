from pathlib import Path

import numpy as np
import pytest
import torch

from data.batch import DataError
from data.files.stored_images import StoredForm, is_8_bit_rgb, read_stored
from data.files.tiff_file import (
    KEYS,
    PIXEL_SCALE,
    TIE_POINTS,
    TRANSFORMATION,
    geo_tags,
    scaled_georeference,
    write_tiff,
)
from tests.images import GEO_TAGS, bands, heights, tifffile

FORM = StoredForm(4, "data.source_channels", is_8_bit=False)
AREA = (1, 1, 0, 1, 1025, 0, 1, 1)
POINT = (1, 1, 0, 2, 1024, 0, 1, 1, 1025, 0, 1, 2)


@pytest.mark.parametrize(
    "options",
    [
        {"planarconfig": "separate"},
        {"planarconfig": "contig"},
        {"planarconfig": "contig", "tile": (16, 16)},
        {"planarconfig": "contig", "bigtiff": True, "byteorder": ">", "compression": "zlib"},
    ],
)
def test_channels_lie_in_pixels_or_planes(tmp_path: Path, options: dict[str, object]) -> None:
    pixels = bands(0)
    stored = pixels.transpose(1, 2, 0) if options["planarconfig"] == "contig" else pixels
    tifffile().imwrite(tmp_path / "x.tif", stored, photometric="minisblack", **options)
    assert not is_8_bit_rgb(tmp_path / "x.tif")
    image = read_stored(tmp_path / "x.tif", FORM)
    assert image.dtype == torch.uint16
    assert np.array_equal(image.numpy(), pixels)


def test_pages_are_channels(tmp_path: Path) -> None:
    with tifffile().TiffWriter(tmp_path / "x.tif") as file:
        for page in bands(0):
            file.write(page, contiguous=False, metadata=None)
    assert np.array_equal(read_stored(tmp_path / "x.tif", FORM).numpy(), bands(0))


@pytest.mark.parametrize("n_channels", [1, 3, 4, 5])
def test_what_is_written_is_read(tmp_path: Path, n_channels: int) -> None:
    tifffile()
    pixels = np.stack([heights(seed) for seed in range(n_channels)])
    write_tiff(tmp_path / "x.tif", pixels)
    form = StoredForm(n_channels, "data.target_channels", is_8_bit=False)
    assert np.array_equal(read_stored(tmp_path / "x.tif", form).numpy(), pixels)


def test_georeferencing_is_kept_at_the_same_size(tmp_path: Path) -> None:
    tifffile().imwrite(tmp_path / "source.tif", heights(0), extratags=GEO_TAGS)
    write_tiff(tmp_path / "same.tif", heights(1)[None], like=tmp_path / "source.tif")
    write_tiff(tmp_path / "other.tif", heights(1, 16, 16)[None], like=tmp_path / "source.tif")
    write_tiff(tmp_path / "none.tif", heights(1)[None], like=tmp_path / "source.png")
    found = {tag[0]: tag[3] for tag in geo_tags(tmp_path / "same.tif", 32, 40)}
    assert found == {code: value for code, _, _, value, _ in GEO_TAGS}
    assert geo_tags(tmp_path / "other.tif", 16, 16) == []
    assert geo_tags(tmp_path / "none.tif", 32, 40) == []


def test_damaged_files_are_named(tmp_path: Path) -> None:
    tifffile().imwrite(tmp_path / "good.tif", bands(0), photometric="minisblack")
    content = (tmp_path / "good.tif").read_bytes()
    damaged = {"cut": content[: len(content) // 2], "junk": b"II*\0" + b"\x01" * 50, "page": b"<html>", "empty": b""}
    for name, part in damaged.items():
        (tmp_path / f"{name}.tif").write_bytes(part)
        with pytest.raises(DataError, match=rf"{name}\.tif: (cannot be read as TIFF|is cut off)"):
            read_stored(tmp_path / f"{name}.tif", FORM)
    with pytest.raises(DataError, match=r"none\.tif: no such file"):
        read_stored(tmp_path / "none.tif", FORM)


def test_a_stack_of_images_is_refused(tmp_path: Path) -> None:
    tifffile().imwrite(tmp_path / "x.tif", np.zeros((2, 3, 8, 9), np.uint16), photometric="minisblack")
    with pytest.raises(DataError, match=r"expected one image with its channels"):
        read_stored(tmp_path / "x.tif", FORM)


def by_points(tags: dict[int, tuple[float, ...]], column: float, row: float) -> list[float]:
    """Where a place in the raster, from the corner of its first pixel, lies in the world."""
    before = 0.5 if tags[KEYS] == POINT else 0.0
    at_column, at_row, _, x, y, _ = tags[TIE_POINTS]
    size_x, size_y, _ = tags[PIXEL_SCALE]
    return [x + (column - before - at_column) * size_x, y - (row - before - at_row) * size_y]


def by_transformation(tags: dict[int, tuple[float, ...]], column: float, row: float) -> list[float]:
    before = 0.5 if tags[KEYS] == POINT else 0.0
    matrix = np.array(tags[TRANSFORMATION]).reshape(4, 4)
    return list((matrix @ [column - before, row - before, 0, 1])[:2])


@pytest.mark.parametrize("scale", [0.25, 0.5, 2.0, 4.0])
@pytest.mark.parametrize("keys", [AREA, POINT])
def test_every_place_stays_where_it_is(scale: float, keys: tuple[int, ...]) -> None:
    points = {PIXEL_SCALE: (30.0, 20.0, 0.0), TIE_POINTS: (3.0, 2.0, 0.0, 5e5, 4e6, 0.0), KEYS: keys}
    matrix = (29.0, 3.0, 0.0, 5e5, 2.0, -31.0, 0.0, 4e6, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 1.0)
    turned = {TRANSFORMATION: matrix, KEYS: keys}
    for tags, world in ((points, by_points), (turned, by_transformation)):
        scaled = scaled_georeference(tags, scale)
        for column, row in ((0, 0), (40, 0), (8.5, 32)):
            assert world(scaled, column * scale, row * scale) == pytest.approx(world(tags, column, row))
    assert scaled_georeference(points, 1) == points


def test_a_larger_tiff_gets_smaller_pixels(tmp_path: Path) -> None:
    tifffile().imwrite(tmp_path / "source.tif", heights(0), extratags=GEO_TAGS)
    larger = heights(1, 64, 80)[None]
    write_tiff(tmp_path / "larger.tif", larger, like=tmp_path / "source.tif", scale=2)
    before = {tag[0]: tag[3] for tag in geo_tags(tmp_path / "source.tif", 32, 40)}
    after = {tag[0]: tag[3] for tag in geo_tags(tmp_path / "larger.tif", 64, 80)}
    assert after == scaled_georeference(before, 2)
    assert after[PIXEL_SCALE][0] == before[PIXEL_SCALE][0] / 2
    write_tiff(tmp_path / "resized.tif", larger, like=tmp_path / "source.tif")
    assert geo_tags(tmp_path / "resized.tif", 64, 80) == []
