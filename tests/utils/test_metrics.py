import numpy as np
import pytest
import torch

from utils.metrics import ConstantColorFloor, image_metrics, mean_metrics


def noise_image(seed: int, height: int = 24, width: int = 32) -> torch.Tensor:
    return torch.randint(0, 256, (3, height, width), dtype=torch.uint8, generator=torch.Generator().manual_seed(seed))


def test_an_image_equals_itself() -> None:
    image = noise_image(0)
    metrics = image_metrics(image, image)
    assert metrics.l1 == 0
    assert metrics.ssim == pytest.approx(1)
    assert metrics.sharpness == pytest.approx(1)
    assert metrics.psnr == 100


def test_a_uniform_difference_has_its_known_figures() -> None:
    image = noise_image(0).clamp(max=204)
    metrics = image_metrics(image + 51, image)  # 0.2 of the range
    assert metrics.l1 == pytest.approx(0.2)
    assert metrics.psnr == pytest.approx(-20 * np.log10(0.2), rel=1e-4)
    assert metrics.sharpness == pytest.approx(1)


def test_blur_lowers_the_sharpness() -> None:
    image = noise_image(0)
    blurred = torch.nn.functional.avg_pool2d(image.float(), 3, 1, 1).to(torch.uint8)
    assert image_metrics(blurred, image).sharpness < 0.6


def test_images_smaller_than_the_window_of_ssim_have_metrics() -> None:
    assert image_metrics(noise_image(0, 4, 30), noise_image(1, 4, 30)).ssim < 0.9


def test_a_black_target_does_not_spoil_the_mean_sharpness() -> None:
    black = torch.zeros_like(noise_image(0))
    mean = mean_metrics([image_metrics(noise_image(0), black), *[image_metrics(noise_image(1), noise_image(1))] * 9])
    assert mean.sharpness == pytest.approx(10 / 9, rel=0.05)


def test_the_mean_is_taken_of_each_metric() -> None:
    a, b = noise_image(0), noise_image(1)
    metrics = [image_metrics(a, b), image_metrics(b, a // 2)]
    assert mean_metrics(metrics).l1 == pytest.approx((metrics[0].l1 + metrics[1].l1) / 2)
    assert mean_metrics(metrics).ssim == pytest.approx((metrics[0].ssim + metrics[1].ssim) / 2)


def test_the_floor_is_that_of_the_medians_of_each_class() -> None:
    rng = np.random.default_rng(0)
    labels = rng.integers(0, 3, (4, 16, 16))
    targets = (labels[:, None] * 60 + rng.integers(0, 40, (4, 3, 16, 16))).astype(np.uint8)
    floor = ConstantColorFloor(n_classes=3)
    for label, target in zip(labels, targets, strict=True):
        floor.add(torch.from_numpy(label[None].astype(np.uint8)), torch.from_numpy(target))
    constant = np.empty_like(targets, dtype=float)
    for k in range(3):
        for channel in range(3):
            values = targets[:, channel][labels == k]
            constant[:, channel][labels == k] = np.median(values)
    assert floor.l1() == pytest.approx(np.abs(targets - constant).mean() / 255, rel=1e-6)


def test_an_rgb_source_has_one_constant_colour() -> None:
    floor = ConstantColorFloor(n_classes=0)
    target = torch.zeros(3, 4, 4, dtype=torch.uint8)
    target[:, :, 3] = 255
    floor.add(noise_image(0, 4, 4), target)
    assert floor.l1() == pytest.approx(0.25)
