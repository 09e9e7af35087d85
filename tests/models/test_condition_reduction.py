import pytest
import torch
import torch.nn.functional as F

from models.spade_generator import ConditionReduction


@pytest.mark.parametrize(("n_noise_channels", "n_image_channels"), [(0, 0), (2, 0), (0, 3), (2, 3), (0, 6), (3, 3)])
@pytest.mark.parametrize("factor", [1, 2, 8])
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
