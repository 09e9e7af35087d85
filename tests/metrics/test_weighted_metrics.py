import math

import pytest
import torch

from metrics.bounds import Bounds
from metrics.evaluator import Evaluator
from metrics.image_metrics import image_metrics, weighted_metrics


def noise(seed: int, height: int = 32, width: int = 24) -> torch.Tensor:
    return torch.randint(0, 256, (3, height, width), dtype=torch.uint8, generator=torch.Generator().manual_seed(seed))


@pytest.mark.parametrize(("height", "width"), [(32, 24), (7, 9), (40, 3)])
def test_equal_weights_give_the_plain_figures(height: int, width: int) -> None:
    fake, target = noise(0, height, width), noise(1, height, width)
    plain = image_metrics(fake, target)
    weighted = weighted_metrics(fake, target, torch.full((1, height, width), 0.3))
    for name in ("l1", "psnr", "ssim"):
        assert weighted[f"{name}_weighted"] == pytest.approx(plain[name], abs=1e-5), name


def test_ignored_pixels_do_not_count() -> None:
    target = torch.full((3, 32, 32), 100, dtype=torch.uint8)
    fake = target.clone()
    fake[..., :16] += 51
    weights = torch.zeros(1, 32, 32)
    weights[..., :16] = 1
    figures = weighted_metrics(fake, target, weights)
    assert figures["l1_weighted"] == pytest.approx(0.2)
    assert figures["psnr_weighted"] == pytest.approx(-10 * math.log10(0.04))
    others = weighted_metrics(fake, target, 1 - weights)
    assert (others["l1_weighted"], others["psnr_weighted"]) == (0, 100)
    assert figures["ssim_weighted"] < image_metrics(fake, target)["ssim"] < others["ssim_weighted"] < 1
    mixed = weighted_metrics(fake, target, 2 * weights + 1)  # 3 on one half and 1 on the other
    assert mixed["l1_weighted"] == pytest.approx(0.15)


def test_where_all_weights_are_0_there_is_no_figure() -> None:
    nothing, all_of_it = torch.zeros(1, 32, 24), torch.ones(1, 32, 24)
    assert weighted_metrics(noise(0), noise(1), nothing) == {}
    evaluator = Evaluator()
    measured = [evaluator.measure(noise(0), noise(1), nothing), evaluator.measure(noise(2), noise(2), all_of_it)]
    assert "l1_weighted" not in measured[0].figures
    figures = evaluator.summarize(measured).figures
    assert figures["l1_weighted"] == 0
    assert figures["l1"] > 0.1
    assert "l1_weighted" not in evaluator.summarize(measured[:1]).figures


def test_values_are_compared_in_their_range() -> None:
    evaluator = Evaluator(bounds=Bounds.of([0.0, 200.0]))
    fake, target = torch.full((1, 16, 16), 50.0), torch.full((1, 16, 16), 100.0)
    figures = evaluator.measure(fake, target, torch.ones(1, 16, 16)).figures
    assert figures["l1_weighted"] == pytest.approx(0.25)
    assert figures["mae"] == 50
