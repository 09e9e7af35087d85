"""The sliced Wasserstein distance of two sets of images."""

import math

import pytest
import torch
from torch import Tensor

from metrics.sliced_wasserstein import LaplacianPatches, laplacian_pyramid, sliced_wasserstein


def smooth_images(n: int, seed: int, side: int = 64, n_channels: int = 3) -> list[Tensor]:
    """Return images with structures at all scales, about as photos have."""
    generator = torch.Generator().manual_seed(seed)
    total = torch.zeros(n, n_channels, side, side)
    for scale in (4, 8, 16, 32, side):
        coarse = torch.randn(n, n_channels, scale, scale, generator=generator) / math.sqrt(scale)
        total += torch.nn.functional.interpolate(coarse, (side, side), mode="bilinear", align_corners=False)
    return list((total * 60 + 128).clamp(0, 255).to(torch.uint8))


def distance(fakes: list[Tensor], reals: list[Tensor]) -> float:
    patches = LaplacianPatches(max(len(fakes), len(reals)))
    described = [[patches(image, number) for number, image in enumerate(images)] for images in (fakes, reals)]
    return sliced_wasserstein(*described).value


def test_a_pyramid_has_levels_down_to_16_pixels_and_its_fine_ones_no_mean() -> None:
    image = smooth_images(1, seed=0, side=130)[0][None].float() + 50
    levels = laplacian_pyramid(image)
    assert [tuple(level.shape[2:]) for level in levels] == [(17, 17), (33, 33), (65, 65), (130, 130)]
    assert all(abs(float(level.mean())) < 0.5 for level in levels[1:])
    flat = laplacian_pyramid(torch.full((1, 3, 37, 64), 77.0))
    torch.testing.assert_close(flat[0], torch.full((1, 3, 19, 32), 77.0))
    torch.testing.assert_close(flat[1], torch.zeros(1, 3, 37, 64), atol=1e-4, rtol=0)


def test_the_distance_of_a_shift_is_that_of_its_projections() -> None:
    """All projections of a set that is shifted by a vector v are shifted by v's; of (1, …, 1), by the sum of each."""
    images = smooth_images(4, seed=1, side=16, n_channels=1)  # one level
    patches = LaplacianPatches(4)
    reals = [patches(image, n) for n, image in enumerate(images)]
    deviation = torch.cat([image[0] for image in reals]).float().std(correction=0)
    shifted = [(image.float() + deviation).half() for image in reals]
    expected = 1000 * math.sqrt(2 / math.pi)  # mean of the absolute sum of the components of a random unit vector
    assert sliced_wasserstein(shifted, reals).value == pytest.approx(expected, rel=0.1)
    assert sliced_wasserstein(reals, reals).value == 0


def test_colours_blur_noise_and_structure_are_seen_above_the_chance_of_other_images() -> None:
    reals, others = smooth_images(8, seed=2), smooth_images(8, seed=3)
    chance = distance(others, reals)
    noise = torch.randn(3, 64, 64, generator=torch.Generator().manual_seed(0)) * 20
    changes = {
        "colours": [255 - (255 - image) // 2 for image in others],
        "blur": [torch.nn.functional.avg_pool2d(image[None].float(), 3, 1, 1)[0].to(torch.uint8) for image in others],
        "noise": [(image + noise).clamp(0, 255).to(torch.uint8) for image in others],
        "collapse": others[:1] * 8,
    }
    for name, images in changes.items():
        assert distance(images, reals) > 1.5 * chance, name


def test_results_depend_on_the_images_alone() -> None:
    fakes, reals = smooth_images(3, seed=4), smooth_images(3, seed=5)
    first = distance(fakes, reals)
    state = torch.manual_seed(1).get_state()
    assert distance(fakes, reals) == first
    assert torch.equal(torch.get_rng_state(), state)  # a validation leaves the draws of the training alone
