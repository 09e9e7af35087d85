"""The georeferencing of an image at another scale, as the tags of GeoTIFF 1.1 hold it (section 7.1)."""

from collections.abc import Mapping, Sequence
from typing import Any

PIXEL_SCALE = 33550  # (x, y, z) of a pixel
TIE_POINTS = 33922  # (column, row, level, x, y, z) of each point
TRANSFORMATION = 34264  # 4 x 4, row by row, from (column, row, level, 1) to (x, y, z, 1)
KEYS = 34735  # (version, revision, minor revision, number), then (key, tag, count, value) of each key
_RASTER_TYPE, _PIXEL_IS_POINT = 1025, 2


def scaled_georeference(tags: Mapping[int, Any], scale: float) -> dict[int, Any]:
    """Return the values of GeoTIFF tags, by code, for an image of `scale` times the sides that covers the same area.

    Positions in a raster count from the upper left corner of its first pixel, or, where pixels are points, from the
    middle of that pixel.
    """
    if scale == 1:
        return dict(tags)
    keys = _groups(tags.get(KEYS, ()), 4)[1:]
    is_point = any(key == _RASTER_TYPE and value == _PIXEL_IS_POINT for key, _, _, value in keys)
    before = 0.5 if is_point else 0.0  # pixels between the corner and where positions count from
    scaled = dict(tags)
    if PIXEL_SCALE in tags:
        x, y, *others = tags[PIXEL_SCALE]
        scaled[PIXEL_SCALE] = (x / scale, y / scale, *others)
    if TIE_POINTS in tags:
        scaled[TIE_POINTS] = tuple(
            value
            for column, row, *others in _groups(tags[TIE_POINTS], 6)
            for value in ((column + before) * scale - before, (row + before) * scale - before, *others)
        )
    if TRANSFORMATION in tags:
        rows = _groups(tags[TRANSFORMATION], 4)
        scaled[TRANSFORMATION] = tuple(value for row in rows for value in _scaled_row(row, scale, before))
    return scaled


def _groups(values: Sequence[Any], length: int) -> list[Sequence[Any]]:
    """Return successive groups of `length` values, without an incomplete one at the end."""
    return [values[start : start + length] for start in range(0, len(values) - length + 1, length)]


def _scaled_row(row: Sequence[float], scale: float, before: float) -> tuple[float, ...]:
    """Return the row of a transformation whose columns and rows are those of the scaled image."""
    of_column, of_row, of_level, offset = row
    shift = before / scale - before  # position 0 of the scaled image, in the image as it is
    return of_column / scale, of_row / scale, of_level, offset + (of_column + of_row) * shift
