"""The colours of label maps, counted."""

from collections import Counter
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from data.batch import DataError
from data.files.image_files import has_transparent_pixels, read_rgb
from utils.cores import usable_cores

_AREA_SHARE = 1e-4  # of a map's pixels: areas of a colour that make it a class; blends at borders form none


@dataclass(frozen=True)
class ColorCounts:
    """The colours of maps, as 0xRRGGBB.

    n_pixels: by colour. in_areas: colours of areas, which are classes. transparent: files with transparent pixels.
    """

    n_pixels: Counter[int]
    in_areas: set[int]
    transparent: list[Path] = field(default_factory=list)

    def others(self, table: Tensor) -> Counter[int]:
        """Return the counts of the colours that are not in `table`, (K, 3) uint8."""
        known = {int.from_bytes(bytes(color)) for color in table.tolist()}
        return Counter({color: n for color, n in self.n_pixels.items() if color not in known})


def count_all(paths: Iterable[Path]) -> tuple[ColorCounts, dict[Path, tuple[str, ...]]]:
    """Return the colours of all maps, and the problems of those that cannot be read."""
    total, unreadable = ColorCounts(Counter(), set()), dict[Path, tuple[str, ...]]()
    paths = list(paths)
    with ThreadPoolExecutor(usable_cores()) as executor:
        for path, counts in zip(paths, executor.map(_count_or_error, paths), strict=True):
            if isinstance(counts, DataError):
                unreadable[path] = counts.problems
                continue
            total.n_pixels.update(counts.n_pixels)
            total.in_areas.update(counts.in_areas)
            total.transparent.extend(counts.transparent)
    return total, unreadable


def _count_or_error(path: Path) -> ColorCounts | DataError:
    try:
        counts = count_colors(read_rgb(path))
        counts.transparent.extend([path] if has_transparent_pixels(path) else [])
        return counts
    except DataError as error:
        return error


def count_colors(picture: Tensor) -> ColorCounts:
    """Return the colours of a (3, H, W) uint8 picture. A colour is in an area where 3x3 pixels have it."""
    red, green, blue = picture.numpy().astype(np.int32)
    pixels = red << 16 | green << 8 | blue
    is_beside, is_below = pixels[:, 1:] == pixels[:, :-1], pixels[1:] == pixels[:-1]
    row = is_beside[:, 1:] & is_beside[:, :-1]  # three equal pixels, centred
    column = (is_below[1:] & is_below[:-1])[:, 1:-1]
    centers = pixels[1:-1, 1:-1][row[2:] & row[1:-1] & row[:-2] & column]
    least = _AREA_SHARE * pixels.size
    in_areas = {color for color, n_pixels in _count(centers).items() if n_pixels >= least}
    return ColorCounts(Counter(_count(pixels.ravel())), in_areas)


def _count(colors: np.ndarray) -> dict[int, int]:
    """Count (N,) colours by their runs, of which label maps have few."""
    starts = np.flatnonzero(np.diff(colors, prepend=-1))
    lengths = np.diff(starts, append=len(colors))
    distinct, run_of = np.unique(colors[starts], return_inverse=True)
    n_pixels = np.bincount(run_of, weights=lengths, minlength=len(distinct)).astype(np.int64)
    return dict(zip(distinct.tolist(), n_pixels.tolist(), strict=True))


def channels(colors: Sequence[int]) -> Tensor:
    """Return (N, 3) uint8 RGB of colours."""
    return torch.tensor([list(color.to_bytes(3)) for color in colors], dtype=torch.uint8).view(len(colors), 3)
