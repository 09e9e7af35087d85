"""Instances made from label maps: the connected parts of classes."""

from collections.abc import Collection

import numpy as np
import torch
from torch import Tensor


def connected_parts(classes: Tensor, divided: Collection[int]) -> Tensor:
    """Return (1, H, W) int32 instance ids of a (1, H, W) map of classes.

    Pixels are connected where one of their 4 neighbours has the same class. Each connected part of a class in `divided`
    is an instance; the pixels of another class are one instance, wherever they are.
    divided: ids of classes; none: all classes.
    """
    # skimage.measure.label gives the same parts; training does not require scikit-image
    ids = classes[0].numpy().astype(np.int32)
    height, width = ids.shape
    is_start = np.ones((height, width), bool)  # of a run of one class in a row
    is_start[:, 1:] = ids[:, 1:] != ids[:, :-1]
    run_of = np.cumsum(is_start, dtype=np.int32).reshape(height, width) - 1
    class_of_run = ids[is_start]
    touches = (ids[1:] == ids[:-1]) & (is_start[1:] | is_start[:-1])  # where a run and one below it meet first
    parts = _joined(len(class_of_run), run_of[:-1][touches], run_of[1:][touches])
    n_classes = int(class_of_run.max()) + 1
    if divided:
        is_divided = np.isin(class_of_run, list(divided))
        parts = np.where(is_divided, parts + n_classes, class_of_run)
    _, numbers = np.unique(parts, return_inverse=True)  # 0, 1, 2, … without gaps
    return torch.from_numpy(numbers.astype(np.int32)[run_of][None])


def _joined(n_nodes: int, first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """Return the smallest node of the component of each of `n_nodes` nodes, between which edges run.

    Roots are joined to smaller ones, and all paths to them shortened, until both ends of each edge have one root
    (Shiloach and Vishkin 1982).
    """
    root = np.arange(n_nodes, dtype=np.int32)
    while True:
        a, b = root[first], root[second]
        is_open = a != b
        if not is_open.any():
            return root
        first, second, a, b = first[is_open], second[is_open], a[is_open], b[is_open]
        np.minimum.at(root, np.maximum(a, b), np.minimum(a, b))
        while not np.array_equal(shorter := root[root], root):
            root = shorter
