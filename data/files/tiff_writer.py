"""Writing TIFF files: in strips, or in tiles and as a pyramid if the source is such a file, with the source's tags."""

import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from data.files.pixel_rows import Bands
from data.files.tiff_tags import TIFF_SUFFIXES, TiffTags, tifffile_package
from data.store import File

_STRIP_BYTES = 2**18  # before compression, as tifffile's
_MAX_CLASSIC_BYTES = 2**32 - 2**25  # largest pixels for positions of 32 bits; compression may add some
_REDUCED = 1  # NewSubfileType of the lower levels of a pyramid
_CENTIMETER = 3
_TILE_UNIT = 16  # TIFF 6.0, section 15: sides of tiles are multiples


def source_tags(source: File | None) -> TiffTags:
    """Return the tags of a source that is a TIFF; no tags for other files and for None."""
    return TiffTags.of(source) if source is not None and source.suffix.lower() in TIFF_SUFFIXES else TiffTags()


def write_tiff(
    path: Path, image: Bands, like: File | None = None, scale: float = 1.0, no_data: float | None = None
) -> None:
    """Write an image, compressed without loss; as BigTIFF if it may have more than 4 GB.

    like: Source of the image, which covers the same area. If it is a TIFF, the image gets its georeferencing, its
        resolution and its tiles. It also gets the names of its bands if it has as many. The lower levels of a pyramid
        are computed in memory.
    scale: Sides of the image divided by the sides of the source, before rounding.
    no_data: Value of pixels without data, or None.

    Raises:
        LoadingError: tifffile is not installed.
    """
    tifffile = tifffile_package(f"{path}: writing it")
    tags, (n_channels, height, width) = source_tags(like), image.shape
    down, across = tags.factors(height, width, scale) if tags else (1.0, 1.0)
    tile = tags.tile if tags.tile and not any(side % _TILE_UNIT for side in tags.tile) else None
    dtype = image.dtype.newbyteorder("<")
    options: dict[str, Any] = {
        "dtype": dtype,
        "tile": tile,
        "photometric": "rgb" if n_channels == 3 and dtype != np.float32 else "minisblack",
        "planarconfig": "contig" if n_channels > 1 else None,
        "compression": "zlib",
        "metadata": None,
    }
    resolution: dict[str, Any] = {"extratags": tags.extra_tags(n_channels, (down, across), no_data)}
    if tags.pixels_per_cm:
        x, y = tags.pixels_per_cm
        resolution |= {"resolution": (x * across, y * down), "resolutionunit": _CENTIMETER}
    n_bytes = height * width * n_channels * dtype.itemsize * (2 if tags.is_pyramid else 1)
    with tifffile.TiffWriter(path, byteorder="<", bigtiff=n_bytes > _MAX_CLASSIC_BYTES) as writer:
        level: Bands | None = image
        while level is not None:
            n_channels, height, width = level.shape
            n_rows = tile[0] if tile else max(1, _STRIP_BYTES // (n_channels * width * dtype.itemsize))
            is_last = not tags.is_pyramid or tile is None or max(height, width) <= max(tile)
            half = None if is_last else np.empty((n_channels, -(-height // 2), -(-width // 2)), level.dtype)
            parts = _parts(level.strips(n_rows), n_rows, tile, half, is_sampled=no_data is not None)
            writer.write(
                (zlib.compress(np.ascontiguousarray(part, dtype).data) for part in parts),
                shape=(height, width, n_channels) if n_channels > 1 else (height, width),
                rowsperstrip=None if tile else n_rows,
                subfiletype=0 if level is image else _REDUCED,
                **options,
                **(resolution if level is image else {}),
            )
            level = None if half is None else Bands.of(half)


def _parts(
    strips: Iterator[np.ndarray],
    n_rows: int,
    tile: tuple[int, int] | None,
    half: np.ndarray | None,
    *,
    is_sampled: bool,
) -> Iterator[np.ndarray]:
    """Yield the strips or tiles of an image, (h, w, C), and fill `half` with the image at half of its sides.

    strips: Successive rows of the image, (C, h, W), each of `n_rows` except the last.
    is_sampled: Take each second pixel, because means would mix values with pixels without data.
    """
    for number, strip in enumerate(strips):
        if half is not None:
            top = number * n_rows // 2
            reduced = strip[:, ::2, ::2] if is_sampled else _means(strip)
            half[:, top : top + reduced.shape[1]] = reduced
        pixels = strip.transpose(1, 2, 0)
        if tile is None:
            yield pixels
            continue
        height, width = tile
        padded = np.pad(pixels, ((0, height - len(pixels)), (0, -pixels.shape[1] % width), (0, 0)), mode="edge")
        yield from np.split(padded, padded.shape[1] // width, axis=1)


def _means(rows: np.ndarray) -> np.ndarray:
    """Return the means of squares of 2x2 pixels of (C, h, w) rows; an odd last row or column is repeated."""
    n_channels, height, width = rows.shape
    padded = np.pad(rows, ((0, 0), (0, height % 2), (0, width % 2)), mode="edge")
    means = padded.reshape(n_channels, -(-height // 2), 2, -(-width // 2), 2).mean((2, 4), dtype=np.float32)
    return means if rows.dtype.kind == "f" else means.round().astype(rows.dtype)
