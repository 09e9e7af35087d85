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
    scores = label_scores(matrix, COLORS.names)
    assert scores is not None
    assert scores.pixel_accuracy == pytest.approx(5 / 7)
    assert scores.mean_iou == pytest.approx((4 / 6 + 1 / 3) / 2)
    assert scores.classes["red"].iou == pytest.approx(4 / 6)
    assert scores.classes["green"].accuracy == pytest.approx(1 / 2)
    assert scores.classes["green"].share == pytest.approx(2 / 7)
    assert (scores.classes["blue"].iou, scores.classes["blue"].accuracy) == (None, None)


def test_a_class_that_is_only_translated_counts_against_the_mean() -> None:
    scores = label_scores(confusion(picture("rb"), picture("rr"), COLORS), COLORS.names)
    assert scores is not None
    assert scores.mean_iou == pytest.approx((1 / 2 + 0) / 2)
    assert scores.classes["blue"].accuracy is None


def test_a_colour_that_is_not_exact_is_the_nearest_class() -> None:
    target = picture("rgb")
    fake = (target.int() + torch.tensor([30, -25, 20]).view(3, 1, 1)).clamp(0, 255).to(torch.uint8)
    assert confusion(fake, target, COLORS).diagonal().tolist() == [1, 1, 1]


def test_a_translation_cannot_leave_pixels_out() -> None:
    assert confusion(picture(".."), picture("rr"), COLORS).sum() == 2


def test_targets_without_a_class_have_no_scores() -> None:
    assert label_scores(confusion(picture("rr"), picture(".."), COLORS), COLORS.names) is None


def test_the_table_has_a_line_for_each_class() -> None:
    scores = label_scores(confusion(picture("rg"), picture("rr"), COLORS), COLORS.names)
    assert scores is not None
    header, red, green, blue = class_table(scores.classes)
    assert header.split() == ["class", "IoU", "accuracy", "share"]
    assert red.split() == ["red", "0.500", "0.500", "100.00%"]
    assert green.split() == ["green", "0.000", "-", "0.00%"]
    assert blue.split() == ["blue", "-", "-", "0.00%"]
    assert class_table({}) == []
    assert class_line(scores.classes) == "red 0.500  green 0.000"
    many = {f"class_{k}": scores.classes["red"] for k in range(42)}
    assert class_line(many).endswith("class_39 0.500  and 2 more")
