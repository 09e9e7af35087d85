import numpy as np
import pytest
import torch
from torch import Tensor
from torchvision.transforms.v2 import functional as F

from data.pair_augmentation import Photometric


def picture(dtype: torch.dtype = torch.uint8, n_channels: int = 3) -> Tensor:
    levels = torch.from_numpy(np.random.default_rng(0).integers(20, 200, (n_channels, 24, 32), dtype=np.uint8))
    return levels.to(dtype)


def test_the_neutral_draw_changes_nothing() -> None:
    for dtype in (torch.uint8, torch.uint16, torch.float32):
        image = picture(dtype)
        assert torch.equal(Photometric()(image), image)


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (Photometric(brightness=0.7), lambda image: F.adjust_brightness(image, 0.7)),
        (Photometric(brightness=1.6), lambda image: F.adjust_brightness(image, 1.6)),
        (Photometric(saturation=0.3), lambda image: F.adjust_saturation(image, 0.3)),
        (Photometric(hue=0.2), lambda image: F.adjust_hue(image, 0.2)),
    ],
)
def test_colors_are_torchvisions(change: Photometric, expected: object) -> None:
    image = picture()
    assert callable(expected)
    found = expected(image.float() / 255) * 255
    assert (change(image).float() - found).abs().max() <= 0.51  # rounded once


def test_contrast_is_about_the_mean() -> None:
    image = picture()
    grey = Photometric(contrast=0.0)(image)
    assert grey.unique().tolist() == [round(float(image.double().mean()))]
    assert Photometric(contrast=1.5)(image).double().std() > image.double().std()


def test_noise_has_its_deviation_and_its_seed() -> None:
    image = torch.full((3, 100, 100), 128, dtype=torch.uint8)
    noisy = Photometric(noise=0.05, noise_seed=1)(image)
    assert torch.equal(noisy, Photometric(noise=0.05, noise_seed=1)(image))
    assert not torch.equal(noisy, Photometric(noise=0.05, noise_seed=2)(image))
    assert float(noisy.double().std()) == pytest.approx(0.05 * 255, rel=0.03)
    red, green, _ = noisy
    assert not torch.equal(red, green)


def test_jpeg_is_of_its_quality() -> None:
    image = picture()
    errors = [(Photometric(jpeg_quality=q)(image).int() - image.int()).abs().double().mean() for q in (10, 50, 95)]
    assert errors[0] > errors[1] > errors[2] > 0


def test_the_image_that_is_given_stays() -> None:
    image = picture()
    before = image.clone()
    Photometric(0.5, 1.5, 2.0, 0.1, 0.1, 0, 10)(image)
    assert torch.equal(image, before)


@pytest.mark.parametrize(
    ("dtype", "n_channels"), [(torch.uint8, 1), (torch.uint8, 4), (torch.uint16, 3), (torch.float32, 3)]
)
def test_other_images_have_brightness_contrast_and_noise(dtype: torch.dtype, n_channels: int) -> None:
    image = picture(dtype, n_channels)
    found = Photometric(brightness=0.8, contrast=0.9, noise=0.02, hue=0.3, jpeg_quality=5)(image)
    assert (found.dtype, found.shape) == (image.dtype, image.shape)
    assert not torch.equal(found, image)
    plain = Photometric(brightness=0.8, contrast=0.9, noise=0.02)(image)
    assert torch.equal(found, plain)  # neither hue nor JPEG
    if dtype != torch.uint8:
        levels = image.float()
        assert levels.min() <= found.float().min() < found.float().max() <= levels.max() + 1e-3


def test_a_constant_image_of_floats_stays_finite() -> None:
    found = Photometric(brightness=1.2, contrast=0.8, noise=0.1)(torch.full((1, 8, 8), 3.5))
    assert torch.equal(found, torch.full((1, 8, 8), 3.5))
