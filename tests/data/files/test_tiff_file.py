from pathlib import Path

import numpy as np
import pytest

from data.batch import DataError
from data.files.pixel_rows import Bands
from data.files.pixels import StoredForm, read_stored
from data.files.tiff_file import (
    KEYS,
    PIXEL_SCALE,
    TIE_POINTS,
    TRANSFORMATION,
    geo_tags,
    scaled_georeference,
    write_tiff_rows,
)
from data.store import File
from tests.images import GEO_TAGS, bands, heights, tifffile

FORM = StoredForm(4, "data.source_channels", is_8_bit=False)
AREA = (1, 1, 0, 1, 1025, 0, 1, 1)
POINT = (1, 1, 0, 2, 1024, 0, 1, 1, 1025, 0, 1, 2)


def test_what_cannot_be_read_is_named(tmp_path: Path) -> None:
    tifffile().imwrite(tmp_path / "good.tif", bands(0), photometric="minisblack")
    content = (tmp_path / "good.tif").read_bytes()
    damaged = {"cut": content[: len(content) // 2], "junk": b"II*\0" + b"\x01" * 50, "page": b"<html>", "empty": b""}
    for name, part in damaged.items():
        (tmp_path / f"{name}.tif").write_bytes(part)
        with pytest.raises(DataError, match=rf"{name}\.tif: (cannot be read as|is cut off)"):
            read_stored(tmp_path / f"{name}.tif", FORM)
    with pytest.raises(DataError, match=r"none\.tif: no such file"):
        read_stored(tmp_path / "none.tif", FORM)
    tifffile().imwrite(tmp_path / "stack.tif", np.zeros((2, 3, 8, 9), np.uint16), photometric="minisblack")
    with pytest.raises(DataError, match=r"stack\.tif: has the shape .*, expected one image with its channels"):
        read_stored(tmp_path / "stack.tif", FORM)


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


def test_a_tiff_keeps_its_georeferencing_at_its_size_and_at_a_scale(tmp_path: Path) -> None:
    source = tmp_path / "source.tif"
    tifffile().imwrite(source, heights(0), extratags=GEO_TAGS)

    def written(height: int, width: int, like: File, scale: float = 1.0) -> dict[int, object]:
        write_tiff_rows(tmp_path / "x.tif", Bands.of(heights(1, height, width)[None]), like, scale)
        return {tag[0]: tag[3] for tag in geo_tags(tmp_path / "x.tif", height, width)}

    before = {code: value for code, _, _, value, _ in GEO_TAGS}
    assert written(32, 40, source) == before
    assert written(64, 80, source, 2) == scaled_georeference(before, 2) != before
    assert written(16, 16, source) == written(64, 80, source) == written(32, 40, tmp_path / "source.png") == {}
