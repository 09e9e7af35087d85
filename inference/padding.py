"""Samples of any size for networks that take only some: enlarged by reflection, to be cut back."""

from dataclasses import replace

import torch
from torch import Tensor

from data.batch import Sample
from inference.window import Window


def padded(sample: Sample, size_multiple: int, min_size: int) -> tuple[Sample, Window]:
    """The sample with sides that are multiples of `size_multiple` and at least `min_size`; and where in it it lies.

    All maps are mirrored alike at their borders, as often as it takes; a side of 1 pixel is repeated. Ids stay ids.
    """
    height, width = sample.source.shape[-2:]
    sides = [max(min_size, -(-side // size_multiple) * size_multiple) for side in (height, width)]
    top, left = (sides[0] - height) // 2, (sides[1] - width) // 2
    window = Window(top, top + height, left, left + width)
    if sides == [height, width]:
        return sample, window
    rows, columns = _mirrored(height, top, sides[0])[:, None], _mirrored(width, left, sides[1])

    def enlarged(image: Tensor | None) -> Tensor | None:
        return None if image is None else image[:, rows, columns]

    return replace(
        sample,
        source=sample.source[:, rows, columns],
        instances=enlarged(sample.instances),
        target=enlarged(sample.target),
        features=enlarged(sample.features),
    ), window


def _mirrored(length: int, before: int, total: int) -> Tensor:
    """(total,) int64 positions in a side of `length`, that begin `before` its first: 2 1 | 0 1 2 | 1 0."""
    period = max(2 * (length - 1), 1)
    position = (torch.arange(total) - before) % period
    return torch.minimum(position, period - position) if length > 1 else torch.zeros_like(position)
