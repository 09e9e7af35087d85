"""Figures after the best shift equal the recorded cases, and the evaluator has them if they are asked for."""

from pathlib import Path

import pytest
import torch
from torch import Tensor

from metrics.best_shift import figures_after_shift
from metrics.evaluator import Evaluator
from metrics.image_metrics import image_metrics
from tests.images import noise_image

CASE = torch.load(Path(__file__).parents[1] / "reference" / "misaligned.pt", weights_only=True)["validation_shift"]


@pytest.mark.parametrize("pair", CASE["pairs"], ids=lambda pair: str(pair["shift"].tolist()))
def test_recorded_shifts(pair: dict[str, Tensor]) -> None:
    fake, target, reach = pair["fake"].double(), pair["target"].double(), CASE["reach"]
    figures = figures_after_shift(fake, target, reach)
    assert [figures["shift_x"], figures["shift_y"]] == pair["shift"].tolist()
    assert figures["l1_shifted"] == pytest.approx(pair["l1_shifted"].item(), abs=1e-12)
    x, y = (int(of) for of in pair["shift"])
    inside = (slice(None), slice(reach, -reach), slice(reach, -reach))
    expected = image_metrics(fake.roll((-y, -x), (1, 2))[inside], target[inside])
    for name in ("l1", "psnr", "ssim"):
        assert figures[f"{name}_shifted"] == pytest.approx(expected[name])


def test_shortest_of_equal_shifts_is_taken_and_small_images_limit_the_reach() -> None:
    flat = torch.full((3, 3, 5), 0.5)
    figures = figures_after_shift(flat, flat, 4)
    assert (figures["shift_x"], figures["shift_y"], figures["l1_shifted"], figures["psnr_shifted"]) == (0, 0, 0, 100)


def test_evaluator_measures_shifts_only_if_it_has_a_reach() -> None:
    image = noise_image(0, 24, 24)
    moved = image.roll((2, -1), (1, 2))
    figures = Evaluator(shift_reach=3).measure(moved, image).figures
    assert (figures["shift_x"], figures["shift_y"], figures["l1_shifted"]) == (-1, 2, 0)
    assert {"l1_shifted", "shift_x"}.isdisjoint(Evaluator().measure(moved, image).figures)
    assert Evaluator(shift_reach=3).basis("l1_shifted") != Evaluator(shift_reach=4).basis("l1_shifted")
    assert Evaluator(shift_reach=3).basis("l1") == Evaluator().basis("l1")
