"""Instances from the connected parts of classes, held against a search pixel by pixel."""

import numpy as np
import pytest
import torch

from data.class_ids import connected_parts
from data.conditioning import instance_edges


def parts_by_search(ids: np.ndarray) -> np.ndarray:
    """Number the connected parts in the order of their first pixels, by flooding one after the other."""
    height, width = ids.shape
    parts, number = np.full((height, width), -1), 0
    for start in np.ndindex(height, width):
        if parts[start] >= 0:
            continue
        parts[start], to_do = number, [start]
        while to_do:
            y, x = to_do.pop()
            for near in ((y + 1, x), (y - 1, x), (y, x + 1), (y, x - 1)):
                is_within = 0 <= near[0] < height and 0 <= near[1] < width
                if is_within and parts[near] < 0 and ids[near] == ids[start]:
                    parts[near] = number
                    to_do.append(near)
        number += 1
    return parts


def made(ids: np.ndarray, divided: tuple[int, ...] = ()) -> np.ndarray:
    instances = connected_parts(torch.from_numpy(ids.astype(np.uint8))[None], divided)
    assert instances.dtype == torch.int32
    assert instances.shape == (1, *ids.shape)
    result: np.ndarray = instances[0].numpy()
    return result


def assert_same_partition(first: np.ndarray, second: np.ndarray) -> None:
    pairs = set(zip(first.ravel().tolist(), second.ravel().tolist(), strict=True))
    assert len(pairs) == len(np.unique(first)) == len(np.unique(second))


@pytest.mark.parametrize("seed", range(12))
def test_parts_are_those_of_a_search(seed: int) -> None:
    rng = np.random.default_rng(seed)
    height, width, n_classes = rng.integers(1, 30), rng.integers(1, 30), rng.integers(1, 5)
    ids = rng.integers(0, n_classes, (height, width))
    assert_same_partition(made(ids), parts_by_search(ids))


def test_a_spiral_is_one_part() -> None:
    side = 41
    spiral, y, x, dy, dx = np.zeros((side, side), int), 0, 0, 0, 1
    for length in [side - 1, *(n for k in range(side - 1, 1, -2) for n in (k, k))]:
        for _ in range(length):
            spiral[y, x] = 1
            y, x = y + dy, x + dx
        dy, dx = dx, -dy
    assert len(np.unique(parts_by_search(spiral))) == len(np.unique(made(spiral)))
    assert len(np.unique(made(spiral)[spiral == 1])) == 1


def test_corners_do_not_connect() -> None:
    assert len(np.unique(made(np.eye(4, dtype=int)))) == 4 + 2


def test_classes_that_are_not_divided_are_one_instance() -> None:
    ids = np.array([[0, 1, 0, 2, 0], [2, 1, 2, 2, 1]])
    numbers = made(ids, (2,))
    assert len(np.unique(numbers[ids == 0])) == 1
    assert len(np.unique(numbers[ids == 1])) == 1
    assert len(np.unique(numbers[ids == 2])) == 2
    assert len(np.unique(numbers)) == 4


@pytest.mark.parametrize("divided", [(), (1, 3)])
def test_edges_are_those_between_classes(divided: tuple[int, ...]) -> None:
    ids = np.random.default_rng(0).integers(0, 5, (20, 30))
    of_instances, of_classes = (instance_edges(torch.from_numpy(m)[None, None]) for m in (made(ids, divided), ids))
    assert torch.equal(of_instances, of_classes)
