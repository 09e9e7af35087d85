"""SPADE's generator, and the reduction of its condition."""

import pytest
import torch
import torch.nn.functional as F

from models.spade_generator import ConditionReduction, SpadeGenerator


@pytest.mark.parametrize(("n_upsamplings", "n_middle_blocks"), [(2, 2), (4, 2), (6, 2), (7, 2), (2, 1), (5, 1)])
def test_the_output_has_the_sides_of_the_source(n_upsamplings: int, n_middle_blocks: int) -> None:
    network = SpadeGenerator(
        in_channels=3, base_channels=2, n_upsamplings=n_upsamplings, n_middle_blocks=n_middle_blocks, hidden_channels=2
    )
    multiple = 2**n_upsamplings
    assert network(torch.randn(1, 3, multiple, 2 * multiple)).shape == (1, 3, multiple, 2 * multiple)
    if n_middle_blocks == 1:  # one block at each resolution
        assert len(network.blocks) == n_upsamplings + 1


@pytest.mark.parametrize(
    ("n_noise_channels", "n_image_channels", "factor"),
    [(0, 0, 2), (2, 0, 8), (0, 3, 1), (2, 3, 2), (0, 6, 2), (3, 3, 8)],
)
def test_images_are_resized_by_area_and_maps_by_the_nearest_pixel(
    n_noise_channels: int, n_image_channels: int, factor: int
) -> None:
    condition = torch.randn(2, 6, 16, 24, dtype=torch.float64)
    reduction = ConditionReduction(factor, n_noise_channels=n_noise_channels, n_image_channels=n_image_channels)
    found = reduction(condition)
    size = (16 // factor, 24 // factor)
    end = n_noise_channels + n_image_channels
    by_area = F.interpolate(condition, size=size, mode="area")
    nearest = F.interpolate(condition, size=size, mode="nearest")
    torch.testing.assert_close(found[:, n_noise_channels:end], by_area[:, n_noise_channels:end])
    assert torch.equal(found[:, :n_noise_channels], nearest[:, :n_noise_channels])
    assert torch.equal(found[:, end:], nearest[:, end:])
