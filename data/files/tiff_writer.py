"""Writing TIFF files: in tiles and as a pyramid if the source is such a file, with the source's tags."""

from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from data.files.tiff_tags import file_tags, tifffile_package
from data.folder import File
from utils.pictures import means_of_squares

_MAX_CLASSIC_BYTES = 2**32 - 2**25  # largest pixels for positions of 32 bits; compression may add some
_REDUCED = 1  # NewSubfileType of the lower levels of a pyramid
_CENTIMETER = 3
_TILE_UNIT = 16  # TIFF 6.0, section 15: sides of tiles are multiples


def write_tiff(
    path: Path, image: Tensor, like: File | None = None, scale: float = 1.0, no_data: float | None = None
) -> None:
    """Write a (C, H, W) image, compressed without loss; as BigTIFF if it may have more than 4 GB.

    like: Source of the image, which covers the same area. If it is a TIFF, the image gets its georeferencing, its
        resolution and its tiles. It also gets the names of its bands if it has as many. The lower levels of a pyramid
        are computed in memory.
    scale: Sides of the image divided by the sides of the source, before rounding.
    no_data: Value of pixels without data, or None.
    """
    tags, (n_channels, height, width) = file_tags(like), image.shape
    down, across = tags.factors(height, width, scale) if tags else (1.0, 1.0)
    tile = tags.tile if tags.tile and not any(side % _TILE_UNIT for side in tags.tile) else None
    options: dict[str, Any] = {
        "tile": tile,
        "photometric": "rgb" if n_channels == 3 and image.dtype != torch.float32 else "minisblack",
        "planarconfig": "contig" if n_channels > 1 else None,
        "compression": "zlib",
        "buffersize": 2**24,  # bytes that are compressed at once
        "metadata": None,
    }
    of_first: dict[str, Any] = {"extratags": tags.extra_tags(n_channels, (down, across), no_data)}
    if tags.pixels_per_cm:
        x, y = tags.pixels_per_cm
        of_first |= {"resolution": (x * across, y * down), "resolutionunit": _CENTIMETER}
    is_large = image.nbytes * (2 if tags.is_pyramid else 1) > _MAX_CLASSIC_BYTES
    with tifffile_package().TiffWriter(path, byteorder="<", bigtiff=is_large) as writer:
        writer.write(_interleaved(image), **options, **of_first)
        level = image
        while tags.is_pyramid and tile and max(level.shape[1:]) > max(tile):
            # means would mix values with pixels without data
            level = means_of_squares(level, 2) if no_data is None else level[:, ::2, ::2]
            writer.write(_interleaved(level), subfiletype=_REDUCED, **options)


def _interleaved(image: Tensor) -> Any:
    """Return (H, W, C), or (H, W) for one channel. It is a view, since the writer copies only a strip or tile."""
    return image[0].numpy() if len(image) == 1 else image.permute(1, 2, 0).numpy()
