"""Pixel accuracy and mean IoU of label pictures, counted by hand."""

import numpy as np
import pytest
import torch

from metrics.segmentation import class_line, class_table, confusion, label_scores
from utils.label_colors import LabelColors

RED, GREEN, BLUE, BLACK = (200, 0, 0), (0, 200, 0), (0, 0, 200), (0, 0, 0)
COLORS = LabelColors("test", ("red", "green", "blue"), (RED, GREEN, BLUE, BLACK))


def picture(*rows: str) -> torch.Tensor:
    colors = {"r": RED, "g": GREEN, "b": BLUE, ".": BLACK}
    array = np.array([[colors[letter] for letter in row] for row in rows], dtype=np.uint8)
    return torch.from_numpy(array).permute(2, 0, 1)


def test_scores_are_those_counted_by_hand() -> None:
    target = picture("rrrg", "rrg.")
    fake = picture("rrgg", "rrrr")  # one red is green, one green is red; the ignored pixel does not count
    matrix = confusion(fake, target, COLORS)
    assert matrix.tolist() == [[4, 1, 0], [1, 1, 0], [0, 0, 0]]
    figures, classes = label_scores(matrix, COLORS.names)
    assert figures == pytest.approx({"pixel_accuracy": 5 / 7, "mean_iou": (4 / 6 + 1 / 3) / 2})
    assert classes["red"].iou == pytest.approx(4 / 6)
    assert classes["green"].accuracy == pytest.approx(1 / 2)
    assert classes["green"].share == pytest.approx(2 / 7)
    assert (classes["blue"].iou, classes["blue"].accuracy) == (None, None)


def test_a_colour_that_is_not_exact_is_the_nearest_class() -> None:
    target = picture("rgb")
    fake = (target.int() + torch.tensor([30, -25, 20]).view(3, 1, 1)).clamp(0, 255).to(torch.uint8)
    assert confusion(fake, target, COLORS).diagonal().tolist() == [1, 1, 1]


def test_targets_without_a_class_have_no_scores() -> None:
    assert label_scores(confusion(picture("rr"), picture(".."), COLORS), COLORS.names) == ({}, {})


def test_the_table_has_a_line_for_each_class() -> None:
    _, classes = label_scores(confusion(picture("rg"), picture("rr"), COLORS), COLORS.names)
    header, red, green, blue = class_table(classes)
    assert header.split() == ["class", "IoU", "accuracy", "share"]
    assert red.split() == ["red", "0.500", "0.500", "100.00%"]
    assert green.split() == ["green", "0.000", "-", "0.00%"]
    assert blue.split() == ["blue", "-", "-", "0.00%"]
    assert class_table({}) == []
    assert class_line(classes) == "red 0.500  green 0.000"
