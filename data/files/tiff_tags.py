"""Read the tags of a TIFF, and write an image as a TIFF with the tags, tiles and pyramid of its source file.

Georeferencing follows GeoTIFF 1.1, section 7.1. Band names and the no-data value follow GDAL.
"""

import logging
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any, Self

import torch
from torch import Tensor

from data.folder import File
from utils.pictures import means_of_squares

TIFF_SUFFIXES = (".tif", ".tiff", ".svs")
PIXEL_SCALE = 33550  # size of a pixel, (x, y, z)
TIE_POINTS = 33922  # (column, row, level, x, y, z) of each point
TRANSFORMATION = 34264  # 4 x 4, row by row, from (column, row, level, 1) to (x, y, z, 1)
KEYS = 34735  # (version, revision, minor revision, number), then (key, tag, count, value) of each key
_RASTER_TYPE, _PIXEL_IS_POINT = 1025, 2
# KEYS refers to numbers and texts in the last two tags
GEO_TAGS = (PIXEL_SCALE, TIE_POINTS, TRANSFORMATION, KEYS, 34736, 34737)
_ASCII = 2  # type of text tags
_GDAL_METADATA = 42112  # XML
_GDAL_NO_DATA = 42113  # a number as text
_ORIENTATION, _X_RESOLUTION, _Y_RESOLUTION, _RESOLUTION_UNIT = 274, 282, 283, 296
_TURNED = (5, 6, 7, 8)  # orientations that exchange rows and columns
_CENTIMETER = 3
_PER_CENTIMETER = {2: 1 / 2.54, 3: 1.0}  # keys are units: 2 is inch, 3 is centimetre
_MICRONS_PER_PIXEL = (r"\bMPP ?= ?([\d.]+)()", r'PhysicalSizeX="([\d.]+)".*?PhysicalSizeY="([\d.]+)"')  # SVS, OME
_IMAGEJ_UNITS = {"micron": 1e4, "um": 1e4, "\\u00B5m": 1e4, "µm": 1e4, "mm": 10.0, "cm": 1.0}  # per centimetre
_ITEM = re.compile(r"<Item\b([^>]*)>([^<]*)</Item>")
_ATTRIBUTE = re.compile(r'(\w+)="([^"]*)"')

_MAX_CLASSIC_BYTES = 2**32 - 2**25  # maximum bytes of pixels in a file with 32-bit offsets; compression can add bytes
_REDUCED = 1  # NewSubfileType of the lower levels of a pyramid
_TILE_UNIT = 16  # sides of tiles must be multiples of 16 (TIFF 6.0, section 15)

ExtraTag = tuple[int, int, int | None, Any, bool]
"""A tag in the format of tifffile's `extratags`: code, type, count, value, and whether only the first page has it."""


@dataclass(frozen=True)
class TiffTags:
    """The tags of an image in a TIFF.

    height, width, n_channels: Shape of the upright image at full resolution.
    georeferencing: GeoTIFF tags. Empty if the file stores the image turned or mirrored.
    pixels_per_cm: Horizontal and vertical resolution, or None.
    band_names: Channel names as XML text, by channel index. A channel without a name has no entry.
    no_data: Value of pixels without data, or None.
    tile: Height and width of tiles in pixels, or None if the image is stored in strips.
    is_pyramid: Whether the file also holds the image at lower resolutions.
    """

    height: int = 0
    width: int = 0
    n_channels: int = 0
    georeferencing: Sequence[ExtraTag] = ()
    pixels_per_cm: tuple[float, float] | None = None
    band_names: Mapping[int, str] = field(default_factory=dict)
    no_data: float | None = None
    tile: tuple[int, int] | None = None
    is_pyramid: bool = False

    @classmethod
    def of(cls, series: Any) -> Self:
        """Return the tags of `series`, an image series of tifffile."""
        page = series.keyframe
        values = {tag.code: tag.value for tag in page.tags.values()}
        orientation = int(values.get(_ORIENTATION, 1))
        height, width = int(page.imagelength), int(page.imagewidth)
        resolution = _resolution(values, f"{page.description} {getattr(series.parent, 'ome_metadata', None) or ''}")
        is_turned = orientation in _TURNED
        geo = [page.tags[code] for code in GEO_TAGS if code in page.tags and orientation == 1]
        return cls(
            *((width, height) if is_turned else (height, width)),
            n_channels=series.size // (height * width),
            georeferencing=[(tag.code, int(tag.dtype), tag.count, tag.value, True) for tag in geo],
            pixels_per_cm=resolution[::-1] if resolution and is_turned else resolution,
            band_names=_band_names(str(values.get(_GDAL_METADATA, ""))),
            no_data=_number(values.get(_GDAL_NO_DATA)),
            tile=(int(page.tilelength), int(page.tilewidth)) if page.is_tiled else None,
            is_pyramid=len(series.levels) > 1,
        )

    def __bool__(self) -> bool:
        """Return whether there are tags that other formats cannot hold."""
        return any((self.georeferencing, self.pixels_per_cm, self.band_names, self.no_data is not None, self.tile))


def file_tags(file: File | None) -> TiffTags:
    """Return the tags of the image in a TIFF. For None, other formats and damaged files, return empty TiffTags."""
    if file is not None and file.suffix.lower() in TIFF_SUFFIXES:
        with suppress(Exception), file.open("rb") as opened:  # damage is reported when the pixels are read
            all_series = tifffile_package().TiffFile(opened).series
            full = (each for each in all_series if not each.keyframe.is_reduced and not each.keyframe.is_mask)
            return TiffTags.of(next(full, all_series[0]))
    return TiffTags()


def tifffile_package() -> ModuleType:
    """Import the package tifffile, and turn off its warnings, because they do not name the file."""
    import tifffile  # takes 0.1 s

    log = logging.getLogger("tifffile")
    if log.level != logging.CRITICAL:  # each call of setLevel clears the caches of all loggers
        log.setLevel(logging.CRITICAL)
    return tifffile


def _number(text: object) -> float | None:
    """Return the value of GDAL's no-data tag as a number, or None if it is not a number."""
    with suppress(ValueError):
        return None if text is None else float(str(text).strip("\0 "))
    return None


def _band_names(xml: str) -> dict[int, str]:
    """Return the channel names in GDAL's metadata as XML text, by channel index."""
    names = {}
    for attributes, text in _ITEM.findall(xml):
        found = dict(_ATTRIBUTE.findall(attributes))
        if found.get("role") == "description" and found.get("sample", "").isdecimal():
            names[int(found["sample"])] = text
    return names


def _resolution(tags: Mapping[int, Any], description: str) -> tuple[float, float] | None:
    """Return the horizontal and the vertical number of pixels per centimetre, or None.

    description: Description of the page. Microscopes, OME and ImageJ write the size of a pixel into it.
    """
    for pattern in _MICRONS_PER_PIXEL:
        if (found := re.search(pattern, description, re.DOTALL)) and float(found[1]):
            return 1e4 / float(found[1]), 1e4 / (float(found[2] or 0) or float(found[1]))
    per_cm = _PER_CENTIMETER.get(int(tags.get(_RESOLUTION_UNIT, 2)))
    if unit := re.search(r"^unit=(\S+)", description, re.MULTILINE):
        per_cm = _IMAGEJ_UNITS.get(unit[1], per_cm)
    ratios = [tags[code] for code in (_X_RESOLUTION, _Y_RESOLUTION) if code in tags]
    if per_cm is None or len(ratios) < 2 or not all(number and divisor for number, divisor in ratios):
        return None
    across, down = (number / divisor * per_cm for number, divisor in ratios)
    return across, down


def scaled_georeference(tags: Mapping[int, Any], down: float, across: float) -> dict[int, Any]:
    """Return the values of GeoTIFF tags, by code, for a resized image that covers the same area.

    Row 0 and column 0 are at the upper left corner of the first pixel. If the tags say that pixels are points, row 0
    and column 0 are at the centre of the first pixel.

    down: Height of the resized image divided by the height of the image with `tags`.
    across: The same for the width.
    """
    if down == across == 1:
        return dict(tags)
    keys = _groups(tags.get(KEYS, ()), 4)[1:]
    is_point = any(key == _RASTER_TYPE and value == _PIXEL_IS_POINT for key, _, _, value in keys)
    before = 0.5 if is_point else 0.0  # distance from the corner to position 0, in pixels
    scaled = dict(tags)
    if PIXEL_SCALE in tags:
        x, y, *others = tags[PIXEL_SCALE]
        scaled[PIXEL_SCALE] = (x / across, y / down, *others)
    if TIE_POINTS in tags:
        scaled[TIE_POINTS] = tuple(
            value
            for column, row, *others in _groups(tags[TIE_POINTS], 6)
            for value in ((column + before) * across - before, (row + before) * down - before, *others)
        )
    if TRANSFORMATION in tags:
        # position 0 of the resized image, as a position in the image with `tags`
        column, row = before / across - before, before / down - before
        scaled[TRANSFORMATION] = tuple(
            value
            for x, y, level, offset in _groups(tags[TRANSFORMATION], 4)
            for value in (x / across, y / down, level, offset + x * column + y * row)
        )
    return scaled


def _groups(values: Sequence[Any], length: int) -> list[Sequence[Any]]:
    """Split values into groups of `length` values. Leave out an incomplete group at the end."""
    return [values[start : start + length] for start in range(0, len(values) - length + 1, length)]


def write_tiff(
    path: Path, image: Tensor, like: File | None = None, scale: float = 1.0, no_data: float | None = None
) -> None:
    """Write a (C, H, W) image with lossless compression, as BigTIFF if the file can exceed 4 GB.

    like: Source file, which covers the same area. If it is a TIFF, its georeferencing, resolution and tiles are
        copied. Its band names are copied if both images have the same number of channels. If it is a pyramid, the lower
        levels of the new pyramid are computed in memory.
    scale: Height of the image divided by the height of the source, before rounding.
    no_data: Value of pixels without data, or None.
    """
    tags, (n_channels, height, width) = file_tags(like), image.shape
    down = across = scale if tags else 1.0
    if tags and (math.ceil(tags.height * scale), math.ceil(tags.width * scale)) != (height, width):
        down, across = height / tags.height, width / tags.width
    tile = tags.tile if tags.tile and not any(side % _TILE_UNIT for side in tags.tile) else None
    options: dict[str, Any] = {
        "tile": tile,
        "photometric": "rgb" if n_channels == 3 and image.dtype != torch.float32 else "minisblack",
        "planarconfig": "contig" if n_channels > 1 else None,
        "compression": "zlib",
        "buffersize": 2**24,  # bytes that are compressed at once
        "metadata": None,
    }
    first_page: dict[str, Any] = {"extratags": [*_extra_tags(tags, n_channels, down, across, no_data)]}
    if tags.pixels_per_cm:
        x, y = tags.pixels_per_cm
        first_page |= {"resolution": (x * across, y * down), "resolutionunit": _CENTIMETER}
    is_large = image.nbytes * (2 if tags.is_pyramid else 1) > _MAX_CLASSIC_BYTES
    with tifffile_package().TiffWriter(path, byteorder="<", bigtiff=is_large) as writer:
        writer.write(_interleaved(image), **options, **first_page)
        level = image
        while tags.is_pyramid and tile and max(level.shape[1:]) > max(tile):
            # means would mix data with the no-data value
            level = means_of_squares(level, 2) if no_data is None else level[:, ::2, ::2]
            writer.write(_interleaved(level), subfiletype=_REDUCED, **options)


def _extra_tags(
    tags: TiffTags, n_channels: int, down: float, across: float, no_data: float | None
) -> Iterator[ExtraTag]:
    """Yield the tags of a resized image. See `scaled_georeference` for `down` and `across`."""
    scaled = scaled_georeference({code: value for code, _, _, value, _ in tags.georeferencing}, down, across)
    for code, kind, count, _, _ in tags.georeferencing:
        value = scaled[code]
        # tifffile accepts only ASCII in str, but any characters in bytes
        yield code, kind, count, value.encode() + b"\0" if isinstance(value, str) else value, True
    if tags.band_names and n_channels == tags.n_channels:
        item = '  <Item name="DESCRIPTION" sample="{}" role="description">{}</Item>\n'
        items = "".join(item.format(*names) for names in tags.band_names.items())
        yield _GDAL_METADATA, _ASCII, None, f"<GDALMetadata>\n{items}</GDALMetadata>\n".encode() + b"\0", True
    if no_data is not None:
        yield _GDAL_NO_DATA, _ASCII, None, f"{no_data:.17g}", True


def _interleaved(image: Tensor) -> Any:
    """Return a view of the image, (H, W, C), or (H, W) for one channel."""
    return image[0].numpy() if len(image) == 1 else image.permute(1, 2, 0).numpy()
