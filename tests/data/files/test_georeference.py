"""The georeferencing of an image at another scale covers the same area."""

from pathlib import Path

import numpy as np
import pytest

from data.files.georeference import KEYS, PIXEL_SCALE, TIE_POINTS, TRANSFORMATION, scaled_georeference
from data.files.tiff_file import geo_tags, write_tiff
from tests.images import GEO_TAGS, heights, tifffile

AREA = (1, 1, 0, 1, 1025, 0, 1, 1)
POINT = (1, 1, 0, 2, 1024, 0, 1, 1, 1025, 0, 1, 2)


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
