"""SSIM and MS-SSIM against torchmetrics, whose float32 is off by up to 1e-4 in even areas, so in float64."""

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor
from torchmetrics.functional.image import (
    multiscale_structural_similarity_index_measure,
    structural_similarity_index_measure,
)

from utils.structural_similarity import SCALE_WEIGHTS, scale_weights, structural_similarity


def pair(kind: str, size: tuple[int, int], n_channels: int) -> tuple[Tensor, Tensor]:
    """Return two images, (1, C, H, W) float32 in [0, 1]."""
    random = torch.Generator().manual_seed(0)

    def noise(*sides: int) -> Tensor:
        return torch.rand(1, n_channels, *sides, generator=random)

    if kind == "bright":
        return 0.95 + 0.02 * noise(*size), 0.95 + 0.02 * noise(*size)
    smooth = F.interpolate(noise(5, 7), size, mode="bilinear")
    return smooth, (smooth + 0.1 * noise(*size)).clamp(0, 1)


@pytest.mark.parametrize(("kind", "size", "n_channels"), [("smooth", (65, 100), 2), ("bright", (177, 180), 1)])
def test_figures_are_those_of_torchmetrics(kind: str, size: tuple[int, int], n_channels: int) -> None:
    fake, target = pair(kind, size, n_channels)
    exact = fake.double(), target.double()
    single = structural_similarity_index_measure(*exact, data_range=1.0, return_full_image=True)
    multiple = multiscale_structural_similarity_index_measure(
        *exact, data_range=1.0, betas=scale_weights(min(size)), normalize="relu"
    )
    for images, tolerance in (((fake, target), 1e-6), (exact, 1e-8)):
        similarity, multiscale = structural_similarity(*images)
        assert similarity.mean().item() == pytest.approx(float(single[0]), abs=tolerance)
        assert multiscale.item() == pytest.approx(float(multiple), abs=tolerance)
    torch.testing.assert_close(structural_similarity(*exact)[0], single[1])


def test_equal_images_are_1_and_opposite_ones_0() -> None:
    image = pair("smooth", (44, 50), 3)[1]
    assert [score.min().item() for score in structural_similarity(image, image)] == [pytest.approx(1)] * 2
    assert structural_similarity(image, 1 - image)[1] == 0


@pytest.mark.parametrize(("side", "n_scales"), [(11, 1), (44, 3), (175, 4), (176, 5)])
def test_smaller_images_have_fewer_scales(side: int, n_scales: int) -> None:
    weights = scale_weights(side)
    assert len(weights) == n_scales
    assert sum(weights) == pytest.approx(1, abs=2e-4)
    assert n_scales < 5 or weights == SCALE_WEIGHTS
    assert 0 <= structural_similarity(*pair("smooth", (side, side + 3), 3))[1] < 1
