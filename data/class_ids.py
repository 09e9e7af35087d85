"""Label maps: classes from stored ids or colours, and instances from classes."""

from collections.abc import Collection

import numpy as np
import torch
from torch import Tensor

from data.batch import DataError
from utils.label_colors import LabelColors

IGNORE_ID = 255  # pixels without a class, in ids that convert_data makes from colours
GREY_LEVELS = (
    "these look like grey levels, as of black and white masks: name them as colours in a file for data.label_colors, "
    "with lines such as background: [0, 0, 0] and object: [255, 255, 255]"
)


def checked_classes(ids: Tensor, name: str, *, n_classes: int, ignore_id: int | None) -> Tensor:
    """Return class ids as in `Sample.source`, from a (1, H, W) int32 map; raise DataError for other ids.

    name: Name of the map, for messages.
    """
    dtype = torch.uint8 if n_classes <= 255 else torch.int32
    lowest, highest = (int(bound) for bound in ids.aminmax())
    is_within = lowest >= 0 and highest < n_classes
    if is_within and (ignore_id is None or not lowest <= ignore_id <= highest):
        return ids.to(dtype)
    is_ignored = ids == ignore_id if ignore_id is not None else torch.zeros_like(ids, dtype=torch.bool)
    is_wrong = ((ids < 0) | (ids >= n_classes)) & ~is_ignored
    if is_wrong.any():
        _, row, column = (int(i) for i in is_wrong.nonzero()[0])
        wrong = int(ids[0, row, column])
        raise DataError(
            f"{name}: pixel (row {row}, column {column}) holds id {wrong}, allowed are 0 to {n_classes - 1}"
            f"{'' if ignore_id is None else f' and {ignore_id}'}: {_remedy(ids, wrong)}"
        )
    return ids.masked_fill(is_ignored, n_classes).to(dtype)


def _remedy(ids: Tensor, wrong: int) -> str:
    if wrong < 0:
        return "ids are not negative; replace it in the files, by 255 for instance, and set data.ignore_id=255"
    if bool(torch.isin(ids, torch.tensor([0, 255])).all()):
        return f"{GREY_LEVELS}, or set data.ignore_id=255 if white pixels have no class"
    return f"raise data.n_classes, or set data.ignore_id={wrong} to leave such pixels out"


def classes_of_colors(picture: Tensor, colors: LabelColors, name: str) -> Tensor:
    """Return the classes of a (3, H, W) uint8 picture as in `Sample.source`; raise DataError for other colours.

    name: Name of the map, for messages.
    """
    n_classes = colors.n_classes
    table = packed_colors(colors.colors.numpy().T)
    order = np.argsort(table)
    pixels = packed_colors(picture.numpy()).ravel()
    starts = np.flatnonzero(np.diff(pixels, prepend=-1))  # runs of one colour, because label maps have few
    found = pixels[starts]
    rows = order[np.searchsorted(table[order], found).clip(max=len(table) - 1)]
    lengths = np.diff(starts, append=len(pixels))
    is_wrong = table[rows] != found
    if is_wrong.any():
        row, column = divmod(int(starts[is_wrong][0]), picture.shape[2])
        share = lengths[is_wrong].sum() / len(pixels)
        remedy = (
            "Smoothed borders and JPEG make such colours: python -m tools.convert_data colors-to-ids gives them the "
            "nearest class; or list the colour in the file"
        )
        raise DataError(
            f"{name}: pixel (row {row}, column {column}) has the colour {picture[:, row, column].tolist()}, which is "
            f"none of data.label_colors, as {share:.2%} of its pixels. {remedy}"
        )
    dtype = np.uint8 if n_classes <= 255 else np.int32
    classes = np.repeat(rows.clip(max=n_classes).astype(dtype), lengths)
    return torch.from_numpy(classes.reshape(1, *picture.shape[1:]))


def packed_colors(channels: np.ndarray) -> np.ndarray:
    """Return (...) int32 0xRRGGBB of (3, ...) uint8."""
    red, green, blue = channels.astype(np.int32)
    packed: np.ndarray = red << 16 | green << 8 | blue
    return packed


def connected_parts(classes: Tensor, divided: Collection[int]) -> Tensor:
    """Return (1, H, W) int32 instance ids of a (1, H, W) map of classes, like skimage.measure.label.

    Each part of a class in `divided` that is connected by 4 neighbours is an instance. Every other class is one
    instance. divided: Ids of classes; empty: all classes.
    """
    ids = classes[0].numpy().astype(np.int32)
    height, width = ids.shape
    is_start = np.ones((height, width), bool)  # runs of one class in a row
    is_start[:, 1:] = ids[:, 1:] != ids[:, :-1]
    run_of = np.cumsum(is_start, dtype=np.int32).reshape(height, width) - 1
    class_of_run = ids[is_start]
    touches = (ids[1:] == ids[:-1]) & (is_start[1:] | is_start[:-1])  # a run and one below it meet first
    parts = _joined(len(class_of_run), run_of[:-1][touches], run_of[1:][touches])
    n_classes = int(class_of_run.max()) + 1
    if divided:
        is_divided = np.isin(class_of_run, list(divided))
        parts = np.where(is_divided, parts + n_classes, class_of_run)
    _, numbers = np.unique(parts, return_inverse=True)  # 0, 1, 2, … without gaps
    return torch.from_numpy(numbers.astype(np.int32)[run_of][None])


def _joined(n_nodes: int, first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """Return the smallest node of the connected component of each node (Shiloach and Vishkin 1982).

    first, second: Ends of the edges.
    """
    root = np.arange(n_nodes, dtype=np.int32)
    while not np.array_equal(a := root[first], b := root[second]):
        np.minimum.at(root, np.maximum(a, b), np.minimum(a, b))
        root = root[root]
    return root
