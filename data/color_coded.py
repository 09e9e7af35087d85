"""Label maps that are drawn in colours."""

import numpy as np
import torch
from torch import Tensor

from data.batch import DataError
from utils.label_colors import LabelColors

IGNORE_ID = 255  # of pixels without a class, in ids that are made of colours


def classes_of_colors(picture: Tensor, colors: LabelColors, name: str) -> Tensor:
    """Return the classes of a (3, H, W) uint8 picture in the form of `Sample.source`; K where a colour is ignored.

    name: of the map, for messages.

    Raises:
        DataError: a pixel has a colour of no class.
    """
    n_classes = colors.n_classes
    table = _packed(colors.colors.numpy().T)
    order = np.argsort(table)
    pixels = _packed(picture.numpy()).ravel()
    starts = np.flatnonzero(np.diff(pixels, prepend=-1))  # of runs of one colour: label maps have few
    found = pixels[starts]
    rows = order[np.searchsorted(table[order], found).clip(max=len(table) - 1)]
    lengths = np.diff(starts, append=len(pixels))
    is_wrong = table[rows] != found
    if is_wrong.any():
        row, column = divmod(int(starts[is_wrong][0]), picture.shape[2])
        share = lengths[is_wrong].sum() / len(pixels)
        if already := _ids_already(picture, colors):
            raise DataError(f"{name}: {already}")
        remedy = (
            "Smoothed borders and JPEG make such colours: python -m tools.convert_data colors-to-ids gives them the "
            "nearest class; or list the colour in the file"
        )
        if np.isin(_packed(picture.numpy()[::-1]), table).all():
            remedy = "In the order BGR all its colours are there: OpenCV writes so; exchange red and blue"
        raise DataError(
            f"{name}: pixel (row {row}, column {column}) has the colour {picture[:, row, column].tolist()}, which is "
            f"none of data.label_colors, as {share:.2%} of its pixels. {remedy}"
        )
    dtype = np.uint8 if n_classes <= 255 else np.int32
    classes = np.repeat(rows.clip(max=n_classes).astype(dtype), lengths)
    return torch.from_numpy(classes.reshape(1, *picture.shape[1:]))


def _ids_already(picture: Tensor, colors: LabelColors) -> str:
    """Return the remedy for a grey picture whose levels are ids of the classes; empty for another picture."""
    levels = {level for level in picture[0].unique().tolist() if level != IGNORE_ID or (level,) * 3 in colors.rgb}
    if not bool((picture == picture[:1]).all()) or max(levels, default=0) >= colors.n_classes:
        return ""
    has_ignored = len(colors.rgb) > colors.n_classes or bool((picture == IGNORE_ID).any())
    settings = f"data.n_classes={colors.n_classes}{f' data.ignore_id={IGNORE_ID}' if has_ignored else ''}"
    return (
        "these are ids already, as python -m tools.convert_data colors-to-ids makes them, and no colours: set "
        f"{settings} data.label_colors=null"
    )


def _packed(channels: np.ndarray) -> np.ndarray:
    """Return (...) int32 0xRRGGBB of (3, ...) uint8."""
    red, green, blue = channels.astype(np.int32)
    packed: np.ndarray = red << 16 | green << 8 | blue
    return packed
