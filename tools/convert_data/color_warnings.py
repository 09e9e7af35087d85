"""Warnings of classes that may not be those that label maps were drawn with."""

from collections.abc import Sequence

import torch

from tools.convert_data.color_counts import ColorCounts, channels
from utils.label_colors import IGNORED, LabelColors
from utils.text import counted

NEAR = 40.0  # distance of two RGB colours: JPEG makes such shades of one at borders
_SHADES = 8.0  # distance of neighbours in a gradient, and of what JPEG makes of an area
_FEW_SHADES = 8  # classes
_SHARE = 1e-3  # of all pixels, of a colour that may be a class
_LARGE_SHARE = 0.1  # of all pixels, of colours that are not those of classes
_LISTED = 3
_REMEDY = "name it with --colors FILE if it is a class"


def color_warnings(counts: ColorCounts, colors: LabelColors, *, is_jpeg: bool) -> list[str]:
    """Return a line for each way in which the nearest classes of pixels may not be those that were drawn.

    is_jpeg: whether JPEG made shades of the colours that were drawn, of which there is no warning.
    """
    total = counts.n_pixels.total()
    others = [color for color, _ in counts.others(colors.colors).most_common()]
    far, near, n_other_pixels = list[str](), list[str](), 0
    for color, distance, row in zip(others, *_nearest(others, colors), strict=True):
        if distance <= (_SHADES if is_jpeg else 0):
            continue
        n_pixels = counts.n_pixels[color]
        n_other_pixels += n_pixels
        text = f"{channels([color])[0].tolist()} ({n_pixels / total:.2%}) into {_class(row, colors)}"
        if distance > NEAR and (n_pixels > _SHARE * total or color in counts.in_areas):
            far.append(text)
        elif color in counts.in_areas:
            near.append(text)
    lines = []
    if far:
        lines.append(f"{counted(len(far), 'colour')} far from all classes merged: {_listed(far)}; {_REMEDY}")
    if near:
        lines.append(f"{counted(len(near), 'colour')} of areas merged, being near: {_listed(near)}; {_REMEDY}")
    if n_other_pixels > _LARGE_SHARE * total:
        lines.append(f"{n_other_pixels / total:.0%} of the pixels have a colour that is not that of a class; {_REMEDY}")
    if counts.transparent:
        n_maps = counted(len(counts.transparent), "map")
        lines.append(
            f"{n_maps} with transparent pixels, such as {counts.transparent[0]}: they get the class of the colour that "
            f"is stored beneath, often [0, 0, 0]; {_REMEDY}"
        )
    if (n_shades := _count_shades(colors)) >= _FEW_SHADES and 2 * n_shades > colors.n_classes:
        lines.append(
            f"{n_shades} of {colors.n_classes} classes are within {_SHADES:g} of another, as the shades of a gradient "
            "are; name the classes with --colors FILE if they are fewer"
        )
    return lines


def _nearest(found: Sequence[int], colors: LabelColors) -> tuple[list[float], list[int]]:
    """Return the distance of the nearest of `colors` to each colour, and its row."""
    table, distances, rows = colors.colors.double(), list[float](), list[int]()
    for part in channels(found).double().split(2**14):
        nearest = torch.cdist(part, table).min(dim=1)
        distances += nearest.values.tolist()
        rows += nearest.indices.tolist()
    return distances, rows


def _count_shades(colors: LabelColors) -> int:
    """Return how many classes have a colour that another one almost has."""
    table = colors.colors[: colors.n_classes].double()
    distances = torch.cdist(table, table).fill_diagonal_(torch.inf)
    return int((distances.amin(dim=1) <= _SHADES).sum())


def _class(row: int, colors: LabelColors) -> str:
    name = colors.names[row] if row < colors.n_classes else IGNORED
    return f"{name} {colors.colors[row].tolist()}"


def _listed(texts: Sequence[str]) -> str:
    more = f" and {len(texts) - _LISTED} more" if len(texts) > _LISTED else ""
    return ", ".join(texts[:_LISTED]) + more
