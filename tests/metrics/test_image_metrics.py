import numpy as np
import pytest
import torch
from torchmetrics.functional.image import multiscale_structural_similarity_index_measure

from metrics.image_metrics import MS_SSIM_WEIGHTS, image_metrics, ms_ssim_weights


def noise_image(seed: int, height: int = 24, width: int = 32) -> torch.Tensor:
    return torch.randint(0, 256, (3, height, width), dtype=torch.uint8, generator=torch.Generator().manual_seed(seed))


def test_an_image_equals_itself() -> None:
    image = noise_image(0)
    metrics = image_metrics(image, image)
    assert metrics["l1"] == 0
    assert metrics["ssim"] == pytest.approx(1)
    assert metrics["gradient"] == pytest.approx(metrics["target_gradient"])
    assert metrics["psnr"] == 100


def test_a_uniform_difference_has_its_known_figures() -> None:
    image = noise_image(0).clamp(max=204)
    metrics = image_metrics(image + 51, image)  # 0.2 of the range
    assert metrics["l1"] == pytest.approx(0.2)
    assert metrics["psnr"] == pytest.approx(-20 * np.log10(0.2), rel=1e-4)
    assert metrics["gradient"] == pytest.approx(metrics["target_gradient"])


def test_ms_ssim_of_large_images_is_the_papers() -> None:
    image = noise_image(0, 180, 200)
    other = torch.nn.functional.avg_pool2d(image.float(), 3, 1, 1).to(torch.uint8)
    expected = multiscale_structural_similarity_index_measure(
        other[None].float() / 255, image[None].float() / 255, data_range=1.0, betas=MS_SSIM_WEIGHTS
    )
    assert image_metrics(other, image)["ms_ssim"] == pytest.approx(float(expected))
    assert image_metrics(image, image)["ms_ssim"] == pytest.approx(1)


@pytest.mark.parametrize(("side", "n_scales"), [(11, 1), (21, 1), (44, 3), (128, 4), (175, 4), (176, 5), (512, 5)])
def test_smaller_images_have_fewer_scales(side: int, n_scales: int) -> None:
    weights = ms_ssim_weights(side)
    assert len(weights) == n_scales
    assert sum(weights) == pytest.approx(1, abs=2e-4)
    metrics = image_metrics(noise_image(0, side, side + 3), noise_image(1, side, side + 3))
    assert 0 <= metrics["ms_ssim"] < 1


@pytest.mark.parametrize("size", [(4, 30), (1, 1)])
def test_images_smaller_than_the_window_of_ssim_have_metrics(size: tuple[int, int]) -> None:
    metrics = image_metrics(noise_image(0, *size), noise_image(1, *size))
    assert metrics["ssim"] < 0.95
    assert 0 <= metrics["ms_ssim"] < 1
    assert np.isfinite(metrics["gradient"])
