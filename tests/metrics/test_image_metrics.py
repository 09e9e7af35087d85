import numpy as np
import pytest
import torch

from metrics.evaluator import Evaluator
from metrics.image_metrics import Bounds, image_metrics
from tests.images import noise_image


@pytest.mark.parametrize("size", [(4, 30), (1, 1)])
def test_images_smaller_than_the_window_of_ssim_have_metrics(size: tuple[int, int]) -> None:
    metrics = image_metrics(noise_image(0, *size), noise_image(1, *size))
    assert metrics["ssim"] < 0.95
    assert 0 <= metrics["ms_ssim"] < 1
    assert np.isfinite(metrics["gradient"])


def test_ignored_pixels_do_not_count() -> None:
    target = torch.full((3, 32, 32), 100, dtype=torch.uint8)
    fake = target.clone()
    fake[..., :16] += 51
    weights = torch.zeros(1, 32, 32)
    weights[..., :16] = 1
    figures = image_metrics(fake, target, weights)
    assert figures["l1_weighted"] == pytest.approx(0.2)
    assert figures["psnr_weighted"] == pytest.approx(-10 * np.log10(0.04))
    others = image_metrics(fake, target, 1 - weights)
    assert (others["l1_weighted"], others["psnr_weighted"]) == (0, 100)
    assert figures["ssim_weighted"] < figures["ssim"] < others["ssim_weighted"] < 1
    mixed = image_metrics(fake, target, 2 * weights + 1)  # 3 on one half and 1 on the other
    assert mixed["l1_weighted"] == pytest.approx(0.15)


def test_where_all_weights_are_0_there_is_no_figure() -> None:
    nothing, all_of_it = torch.zeros(1, 24, 32), torch.ones(1, 24, 32)
    evaluator = Evaluator()
    measured = [
        evaluator.measure(noise_image(0), noise_image(1), nothing),
        evaluator.measure(noise_image(2), noise_image(2), all_of_it),
    ]
    assert "l1_weighted" not in measured[0].figures
    figures = evaluator.summarize(measured).figures
    assert figures["l1_weighted"] == 0
    assert figures["l1"] > 0.1
    assert "l1_weighted" not in evaluator.summarize(measured[:1]).figures


def test_open_bounds_keep_what_is_outside_but_for_levels() -> None:
    image = torch.tensor([[[-10.0, 0.0, 5.0, 20.0]]])
    closed, unbounded = Bounds.of([0, 10]), Bounds.of([0, 10], are_closed=False)
    assert closed.shares(image).tolist() == [[[0, 0, 0.5, 1]]]
    assert unbounded.shares(image).tolist() == [[[-1, 0, 0.5, 2]]]
    for bounds in (closed, unbounded):
        assert bounds.levels(image)[0].tolist() == [[0, 0, 128, 255]]
