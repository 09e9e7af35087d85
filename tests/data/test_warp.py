import math

import numpy as np
import pytest
import torch
from torch import Tensor
from torchvision.transforms.v2 import InterpolationMode
from torchvision.transforms.v2 import functional as F

from data.warp import Warp, affine_inverse, controls_of, ids_at, image_at, weights_at
from utils.limits import MOST_ELASTIC

IDENTITY = ((1.0, 0.0), (0.0, 1.0))


def positions(warp: Warp, height: int, width: int) -> Tensor:
    return warp.positions(height, width) + torch.tensor([width / 2, height / 2])[:, None, None]


def elastic(height: int, width: int, share: float, seed: int = 0) -> Warp:
    controls = np.random.default_rng(seed).uniform(-share, share, (2, *controls_of(height, width)))
    return Warp(IDENTITY, torch.from_numpy(controls).float())


def picture(height: int, width: int) -> Tensor:
    return torch.from_numpy(np.random.default_rng(0).integers(0, 256, (3, height, width), dtype=np.uint8))


def test_nothing_drawn_changes_nothing() -> None:
    image = picture(24, 40)
    where = positions(Warp(affine_inverse(0, 1, 0)), 24, 40)
    assert torch.equal(image_at(image, where), image)
    assert torch.equal(ids_at(image, where), image)


@pytest.mark.parametrize(("turns", "degrees"), [(1, 90), (2, 180), (3, -90)])
def test_rotation_is_counter_clockwise(turns: int, degrees: float) -> None:
    image = picture(32, 32)
    where = positions(Warp(affine_inverse(degrees, 1, 0)), 32, 32)
    assert torch.equal(image_at(image, where), image.rot90(turns, (-2, -1)))


@pytest.mark.parametrize(
    ("rotation", "scale", "shear"), [(17, 1, 0), (0, 1.3, 0), (0, 0.7, 0), (0, 1, 12), (-33, 1.2, 0)]
)
def test_the_inside_is_as_torchvisions_affine(rotation: float, scale: float, shear: float) -> None:
    image = F.gaussian_blur(picture(64, 64), [9, 9])
    where = positions(Warp(affine_inverse(rotation, scale, shear)), 64, 64)
    expected = F.affine(
        image, -rotation, [0, 0], scale, [-shear, 0], interpolation=InterpolationMode.BILINEAR
    )  # whose angles are clockwise
    inside = ((where > 1) & (where < 63)).all(0)
    assert inside.float().mean() > 0.45
    difference = (image_at(image, where).int() - expected.int()).abs()[:, inside]
    assert int(difference.max()) <= 1


def test_the_order_is_shear_then_scale_then_rotation() -> None:
    (a, b), (c, d) = affine_inverse(30, 1.5, 10)
    cosine, sine = math.cos(math.radians(30)), math.sin(math.radians(30))
    forward = (
        1.5 * torch.tensor([[cosine, sine], [-sine, cosine]]) @ torch.tensor([[1, math.tan(math.radians(10))], [0, 1]])
    )
    torch.testing.assert_close(torch.tensor([[a, b], [c, d]]) @ forward, torch.eye(2), atol=1e-6, rtol=0)


def test_beyond_its_borders_an_image_continues_as_its_reflection() -> None:
    image = picture(8, 12)
    whole = torch.cat([image.flip(-1), image, image.flip(-1)], dim=2)
    whole = torch.cat([whole.flip(-2), whole, whole.flip(-2)], dim=1)
    where = torch.stack(torch.meshgrid(torch.arange(36) - 11.5, torch.arange(24) - 7.5, indexing="xy"))
    for read in (image_at, ids_at):
        assert torch.equal(read(image, where), whole)
    far = where + torch.tensor([24 * 5, -16 * 3])[:, None, None]  # whole periods
    assert torch.equal(ids_at(image, far), whole)


def test_bilinear_at_a_border_mixes_with_the_reflection() -> None:
    image = torch.tensor([[[0.0, 10.0]]])
    where = torch.tensor([[[0.0, 0.5, 1.0, 2.0]], [[0.5] * 4]])
    assert image_at(image, where).tolist() == [[[0.0, 0.0, 5.0, 10.0]]]


@pytest.mark.parametrize("size", [(64, 64), (48, 96), (33, 50)])
def test_controls_that_are_equal_shift_and_no_displacement_is_larger(size: tuple[int, int]) -> None:
    shift = Warp(IDENTITY, torch.full((2, *controls_of(*size)), 0.1))
    moved = shift.positions(*size) - Warp(IDENTITY).positions(*size)
    torch.testing.assert_close(moved, torch.full_like(moved, 0.1 * min(size)))
    drawn = elastic(*size, 0.1).positions(*size) - Warp(IDENTITY).positions(*size)
    assert 0.02 * min(size) < float(drawn.abs().max()) <= 0.1 * min(size)


@pytest.mark.parametrize("seed", range(5))
def test_no_deformation_folds(seed: int) -> None:
    x, y = elastic(96, 128, MOST_ELASTIC, seed).positions(96, 128)
    area = x.diff(dim=1)[:-1] * y.diff(dim=0)[:, :-1] - x.diff(dim=0)[:, :-1] * y.diff(dim=1)[:-1]
    assert float(area.min()) > 0


def test_a_warp_is_the_same_at_twice_the_size() -> None:
    small, large = elastic(32, 48, 0.05), elastic(64, 96, 0.05)
    assert small.controls is not None
    assert large.controls is not None
    assert torch.equal(small.controls, large.controls)
    coarse, fine = small.positions(32, 48), large.positions(64, 96)
    pooled = torch.nn.functional.avg_pool2d(fine[None], 2)[0]
    torch.testing.assert_close(pooled / 2, coarse, atol=0.02, rtol=0)


@pytest.mark.parametrize("dtype", [torch.uint8, torch.uint16, torch.float32])
@pytest.mark.parametrize("n_channels", [1, 4])
def test_images_of_any_channels_and_types_keep_theirs(dtype: torch.dtype, n_channels: int) -> None:
    image = (torch.arange(20 * 30) % 251).reshape(1, 20, 30).expand(n_channels, -1, -1).to(dtype)
    for read in (image_at, ids_at):
        found = read(image, positions(elastic(20, 30, 0.1), 20, 30))
        assert (found.shape, found.dtype) == (image.shape, dtype)
        assert torch.equal(found.float()[0], found.float()[-1])


def test_ids_are_read_exactly() -> None:
    ids = torch.from_numpy(np.random.default_rng(0).integers(2**30, 2**31 - 1, (1, 40, 40), dtype=np.int32))
    found = ids_at(ids, positions(elastic(40, 40, 0.1), 40, 40))
    assert set(found.unique().tolist()) <= set(ids.unique().tolist())
    assert not torch.equal(found, ids)


@pytest.mark.parametrize("dtype", [torch.uint8, torch.uint16, torch.float32])
def test_a_warp_ignores_weights_beyond_the_borders(dtype: torch.dtype) -> None:
    weights = torch.full((1, 20, 20), 9, dtype=dtype)
    half_size = Warp(affine_inverse(0, 0.5, 0)).positions(20, 20) + 10
    read = weights_at(weights, half_size)
    assert read.dtype == dtype
    assert (read.float().sum(), read[..., 5:15, 5:15].float().min()) == (900, 9)  # 10 x 10 pixels of 9
