import numpy as np
import pytest
import torch
from torchmetrics.functional.image import multiscale_structural_similarity_index_measure

from metrics.constant_color import ConstantColorBaseline
from metrics.evaluator import Evaluator
from metrics.image_metrics import MS_SSIM_WEIGHTS, image_metrics, ms_ssim_weights


def noise_image(seed: int, height: int = 24, width: int = 32) -> torch.Tensor:
    return torch.randint(0, 256, (3, height, width), dtype=torch.uint8, generator=torch.Generator().manual_seed(seed))


def test_an_image_equals_itself() -> None:
    image = noise_image(0)
    metrics = image_metrics(image, image)
    assert metrics.l1 == 0
    assert metrics.ssim == pytest.approx(1)
    assert metrics.gradient == pytest.approx(metrics.target_gradient)
    assert metrics.psnr == 100


def test_a_uniform_difference_has_its_known_figures() -> None:
    image = noise_image(0).clamp(max=204)
    metrics = image_metrics(image + 51, image)  # 0.2 of the range
    assert metrics.l1 == pytest.approx(0.2)
    assert metrics.psnr == pytest.approx(-20 * np.log10(0.2), rel=1e-4)
    assert metrics.gradient == pytest.approx(metrics.target_gradient)


def test_ms_ssim_of_large_images_is_the_papers() -> None:
    image = noise_image(0, 180, 200)
    other = torch.nn.functional.avg_pool2d(image.float(), 3, 1, 1).to(torch.uint8)
    expected = multiscale_structural_similarity_index_measure(
        other[None].float() / 255, image[None].float() / 255, data_range=1.0, betas=MS_SSIM_WEIGHTS
    )
    assert image_metrics(other, image).ms_ssim == pytest.approx(float(expected))
    assert image_metrics(image, image).ms_ssim == pytest.approx(1)


@pytest.mark.parametrize(("side", "n_scales"), [(11, 1), (21, 1), (44, 3), (128, 4), (175, 4), (176, 5), (512, 5)])
def test_smaller_images_have_fewer_scales(side: int, n_scales: int) -> None:
    weights = ms_ssim_weights(side)
    assert len(weights) == n_scales
    assert sum(weights) == pytest.approx(1, abs=2e-4)
    metrics = image_metrics(noise_image(0, side, side + 3), noise_image(1, side, side + 3))
    assert 0 <= metrics.ms_ssim < 1


def test_blur_lowers_the_sharpness() -> None:
    image = noise_image(0)
    blurred = torch.nn.functional.avg_pool2d(image.float(), 3, 1, 1).to(torch.uint8)
    assert Evaluator().measure(blurred, image).figures["sharpness"] < 0.6


@pytest.mark.parametrize("size", [(4, 30), (1, 1)])
def test_images_smaller_than_the_window_of_ssim_have_metrics(size: tuple[int, int]) -> None:
    metrics = image_metrics(noise_image(0, *size), noise_image(1, *size))
    assert metrics.ssim < 0.95
    assert 0 <= metrics.ms_ssim < 1
    assert np.isfinite(metrics.gradient)


def test_a_black_target_does_not_spoil_the_mean_sharpness() -> None:
    black, evaluator = torch.zeros_like(noise_image(0)), Evaluator()
    pairs = [(noise_image(0), black), *[(noise_image(1), noise_image(1))] * 9]
    summary = evaluator.summarize([evaluator.measure(*pair) for pair in pairs])
    assert summary.figures["sharpness"] == pytest.approx(10 / 9, rel=0.05)


def test_the_mean_is_taken_of_each_metric() -> None:
    a, b, evaluator = noise_image(0), noise_image(1), Evaluator()
    measured = [evaluator.measure(a, b), evaluator.measure(b, a // 2)]
    mean = evaluator.summarize(measured).mean
    for name in ("l1", "psnr", "ssim", "ms_ssim"):
        assert mean[name] == pytest.approx((measured[0].figures[name] + measured[1].figures[name]) / 2)


def test_the_floor_is_that_of_the_medians_of_each_class() -> None:
    rng = np.random.default_rng(0)
    labels = rng.integers(0, 3, (4, 16, 16))
    targets = (labels[:, None] * 60 + rng.integers(0, 40, (4, 3, 16, 16))).astype(np.uint8)
    floor = ConstantColorBaseline(n_classes=3)
    for label, target in zip(labels, targets, strict=True):
        floor.add(torch.from_numpy(label[None].astype(np.uint8)), torch.from_numpy(target))
    constant = np.empty_like(targets, dtype=float)
    for k in range(3):
        for channel in range(3):
            values = targets[:, channel][labels == k]
            constant[:, channel][labels == k] = np.median(values)
    assert floor.l1() == pytest.approx(np.abs(targets - constant).mean() / 255, rel=1e-6)


def test_an_rgb_source_has_one_constant_colour() -> None:
    floor = ConstantColorBaseline(n_classes=0)
    target = torch.zeros(3, 4, 4, dtype=torch.uint8)
    target[:, :, 3] = 255
    floor.add(noise_image(0, 4, 4), target)
    assert floor.l1() == pytest.approx(0.25)
