import numpy as np
import pytest
import torch
from torch import Tensor
from torchvision.transforms.v2.functional import gaussian_blur

from data.checks.registration import MIN_SIDE, displacement
from data.facades.dataset import SyntheticFacades
from data.preprocessing import resize_image

FACADES = SyntheticFacades(split="train", seed=0, n_samples=4, height=160, width=168)
MARGIN = 16  # pixels


def cropped(image: Tensor, x: int = 0, y: int = 0) -> Tensor:
    """Return an image without its margins, moved by x to the right and y down."""
    height, width = image.shape[-2:]
    return image[:, MARGIN - y : height - MARGIN - y, MARGIN - x : width - MARGIN - x]


@pytest.mark.parametrize("index", range(4))
@pytest.mark.parametrize("shift", [(0, 0), (-5, 3), (9, 12), (0, -7)])
@pytest.mark.parametrize("kind", ["ids", "negative", "blurred"])
def test_the_place_of_the_target_is_found(index: int, shift: tuple[int, int], kind: str) -> None:
    sample = FACADES.read(index)
    assert sample.target is not None
    target = cropped(sample.target, *shift)
    if kind == "ids":
        assert displacement(cropped(sample.source), target, source_is_ids=True) == shift
        return
    source = cropped(sample.target)
    source = gaussian_blur(source, [7, 7]) if kind == "blurred" else source
    found = displacement(255 - source, target, source_is_ids=False)
    assert found is not None
    assert max(abs(a - b) for a, b in zip(found, shift, strict=True)) <= (1 if kind == "blurred" else 0)


@pytest.mark.parametrize("is_larger", [True, False])
def test_the_place_of_a_target_of_another_size_is_found_in_pixels_of_the_smaller(is_larger: bool) -> None:
    pair = SyntheticFacades(split="train", seed=0, n_samples=1, height=320, width=336).read(0)
    assert pair.target is not None
    large, reduced = 255 - pair.target, resize_image(pair.target, 160, 168)
    if is_larger:
        found = displacement(cropped(reduced), large[:, 32 - 12 : -32 - 12, 32 + 8 : -32 + 8], source_is_ids=False)
    else:
        found = displacement(large[:, 32:-32, 32:-32], cropped(reduced, -4, 6), source_is_ids=False)
    assert found == (-4, 6)
    assert displacement(large, reduced[:, :, 1:], source_is_ids=False) is None


def test_nothing_is_said_of_images_that_cannot_be_compared() -> None:
    noise, other = torch.from_numpy(np.random.default_rng(0).integers(0, 256, (2, 3, 128, 128), dtype=np.uint8))
    plain, small = torch.full_like(noise, 7), noise[:, : MIN_SIDE - 1]
    for source, target in ((noise, other), (plain, noise), (plain, plain), (noise, noise[:, 1:]), (small, small)):
        assert displacement(source, target, source_is_ids=False) is None


@pytest.mark.parametrize("dtype", [torch.uint16, torch.float32])
def test_other_types_and_channels_are_compared(dtype: torch.dtype) -> None:
    image = FACADES.read(1).target
    assert image is not None
    wide = (cropped(image).float() * 200).to(dtype)
    assert displacement(wide[:1], cropped(image, 6, -4), source_is_ids=False) == (6, -4)
