"""Figures of images together, and what the registry adds to them."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor

from metrics import METRICS
from metrics.evaluator import Evaluator
from metrics.image_metrics import Bounds
from metrics.metric import FeatureSource, PairMetric, SetMetric, SetScore
from tests.images import noise_image

CPU = torch.device("cpu")


def test_a_black_target_does_not_spoil_the_mean_sharpness() -> None:
    black, evaluator = torch.zeros_like(noise_image(0)), Evaluator()
    pairs = [(noise_image(0), black), *[(noise_image(1), noise_image(1))] * 9]
    summary = evaluator.summarize([evaluator.measure(*pair) for pair in pairs])
    assert summary.figures["sharpness"] == pytest.approx(10 / 9, rel=0.05)


class Brightness:
    def __init__(self, device: torch.device) -> None:
        self.protocol: dict[str, Any] = {"device": device.type}

    def __call__(self, fake: Tensor, target: Tensor) -> float:
        return float((fake.float().mean() - target.float().mean()).abs())


class MeanColor:
    def __init__(self, device: torch.device, n_images: int) -> None:
        self.protocol: dict[str, Any] = {"device": device.type}

    def __call__(self, image: Tensor, number: int) -> Tensor:
        return image.float().mean((1, 2))


def mean_distance(fakes: Sequence[Tensor], targets: Sequence[Tensor]) -> SetScore:
    means = [torch.stack([*images]).mean(0) for images in (fakes, targets)]
    return SetScore(float((means[0] - means[1]).norm()), deviation=0.5)


def test_a_metric_is_added_by_its_line_in_the_registry(monkeypatch: pytest.MonkeyPatch) -> None:
    source = FeatureSource("colors", load=MeanColor)
    pair = PairMetric("brightness", higher_is_better=False, load=Brightness)
    monkeypatch.setitem(METRICS, "brightness", pair)
    of_set = SetMetric("colours", higher_is_better=False, features=source, score=mean_distance, protocol="by hand")
    monkeypatch.setitem(METRICS, "colors", of_set)
    images = [noise_image(seed) for seed in range(4)]
    evaluator = Evaluator.load(["colors", "brightness"], None, CPU)
    measured = [evaluator.measure(images[0], images[1]), evaluator.measure(images[2], images[3])]
    difference = abs(float(images[0].float().mean() - images[1].float().mean()))
    assert measured[0].figures["brightness"] == pytest.approx(difference)
    summary = evaluator.summarize(measured)
    for name in ("brightness", "psnr"):
        assert summary.mean[name] == pytest.approx(sum(m.figures[name] for m in measured) / 2)
    assert summary.whole.keys() == {"colors", "colors_deviation"}
    assert evaluator.protocol["brightness"] == {"device": "cpu"}
    assert evaluator.protocol["colors"] == "by hand"
    assert evaluator.summarize(measured[:1]).whole == {}


def test_values_are_compared_in_their_range_and_in_their_unit() -> None:
    target = torch.rand(2, 20, 24, generator=torch.Generator().manual_seed(0)) * 400 - 100
    fake = (target + 20).clamp(-100, 300)
    evaluator = Evaluator(bounds=Bounds.of([-100, 300]))
    figures = evaluator.measure(fake, target).figures
    error = float((fake - target).abs().mean())
    assert figures["mae"] == pytest.approx(error, rel=1e-5)
    assert figures["l1"] == pytest.approx(error / 400, rel=1e-4)
    weighted = evaluator.measure(fake, target, torch.ones(1, 20, 24)).figures
    assert (weighted["mae"], weighted["l1_weighted"]) == (figures["mae"], pytest.approx(error / 400, rel=1e-4))
    weights = torch.rand(1, 20, 24, generator=torch.Generator().manual_seed(1)).round()
    expected = float(((fake - target).abs().mean(0) * weights).sum() / weights.sum())
    assert evaluator.measure(fake, target, weights).figures["mae_weighted"] == pytest.approx(expected, rel=1e-5)
    assert "mae_weighted" not in evaluator.measure(fake, target, weights * 0).figures
    outside = torch.full_like(target, 1e6)  # clipped to the end of the range
    assert evaluator.measure(outside, target).figures["l1"] <= 1
    assert "values, of which [-100.0] to [300.0] are 0 to 1" in evaluator.protocol["compared"]
    levels = evaluator.levels(torch.tensor([[[-100.0, 100.0, 300.0, 999.0]]]))
    assert levels[:, 0].tolist() == [[0, 128, 255, 255]] * 3


def test_sets_of_any_numbers_sizes_and_ranges_are_compared() -> None:
    """The two sets of an unpaired data set: a range of its own, no image belongs to another."""
    evaluator = replace(Evaluator.load(["swd"], None, CPU, n_images=3), bounds=Bounds.of([-100, 300]))
    fakes = [evaluator.features(noise_image(n).float() * 400 / 255 - 100, n) for n in range(3)]
    reals = [evaluator.features(noise_image(n)[:, :20].float() * 400 / 255 - 100, n) for n in range(3, 5)]
    far = [evaluator.features(torch.full((3, 40, 9), 300.0), n) for n in range(2)]
    near = evaluator.set_figures(fakes, reals)["swd"]
    assert 0 < near < 0.5 * evaluator.set_figures(far, reals)["swd"]
    assert evaluator.set_figures(fakes[:1], reals[:1]).keys() == {"swd"}  # SWD needs no spread
