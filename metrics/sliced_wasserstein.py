"""Sliced Wasserstein distance of patches at several resolutions: compares two sets of images without any weights.

Karras et al. 2018 (progressive growing of GANs), section 5: differences at the low resolutions are those of large
structures and colours, differences at the high ones those of edges and noise.
"""

from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor

PATCH_SIDE, PATCHES_PER_LEVEL = 7, 128  # of an image
_SMALLEST_SIDE = 16  # of the coarsest level
_PROJECTIONS = 512
_KERNEL = (1.0, 4.0, 6.0, 4.0, 1.0)  # of the Laplacian pyramid, along one axis (Burt and Adelson 1983)


def patch_descriptors(image: Tensor, seed: int) -> list[Tensor]:
    """Return patches of each level of the Laplacian pyramid, (PATCHES_PER_LEVEL, C * 49) float32, the finest first.

    image: (C, H, W) uint8, or float of the same range, H and W at least 16. seed: of the patches' positions.
    """
    generator = torch.Generator().manual_seed(seed)
    return [_random_patches(level, generator) for level in laplacian_pyramid(image[None].float())]


def laplacian_pyramid(image: Tensor) -> list[Tensor]:
    """Return what each level adds to the next coarser one, the finest first, and the coarsest image.

    image: (1, C, H, W). Each level has half of the sides, rounded up, down to a shorter side of 16 to 31 pixels.
    """
    levels = []
    while min(image.shape[2:]) >= 2 * _SMALLEST_SIDE:
        coarse = _blurred(image)[..., ::2, ::2]
        levels.append(image - F.interpolate(coarse, image.shape[2:], mode="bilinear", align_corners=False))
        image = coarse
    return [*levels, image]


def sliced_wasserstein(fakes: Sequence[Tensor], reals: Sequence[Tensor], seed: int = 0) -> list[float]:
    """Return the distance of two sets at each level: the mean over random directions of the 1-d Wasserstein distance.

    fakes, reals: (P, D) patches at each level, of all images; P may differ between the sets.
    """
    generator = torch.Generator().manual_seed(seed)
    return [_distance(*pair, generator) for pair in zip(fakes, reals, strict=True)]


def _distance(fakes: Tensor, reals: Tensor, generator: torch.Generator) -> float:
    directions = F.normalize(torch.randn(fakes.shape[1], _PROJECTIONS, generator=generator), dim=0)
    fake, real = (_standardized(patches, like=reals) @ directions for patches in (fakes, reals))
    n_compared = min(len(fake), len(real))
    fake, real = (_quantiles(projections, n_compared) for projections in (fake, real))
    return float((fake - real).abs().mean())


def _standardized(patches: Tensor, like: Tensor) -> Tensor:
    """Scale each channel by the mean and the deviation that the real patches have."""
    channels, reference = (p.unflatten(1, (-1, PATCH_SIDE**2)) for p in (patches, like))
    deviation, mean = torch.std_mean(reference, dim=(0, 2), correction=0)
    return ((channels - mean[:, None]) / deviation.clamp(min=1e-6)[:, None]).flatten(1)


def _quantiles(projections: Tensor, n_quantiles: int) -> Tensor:
    places = torch.linspace(0, len(projections) - 1, n_quantiles).round().long()
    return projections.sort(dim=0).values[places]


def _random_patches(level: Tensor, generator: torch.Generator) -> Tensor:
    rows, columns = (
        torch.randint(side - PATCH_SIDE + 1, (PATCHES_PER_LEVEL,), generator=generator) for side in level.shape[2:]
    )
    windows = level[0].unfold(1, PATCH_SIDE, 1).unfold(2, PATCH_SIDE, 1)  # (C, H', W', 7, 7)
    return windows[:, rows, columns].transpose(0, 1).flatten(1).clone()


def _blurred(image: Tensor) -> Tensor:
    row = torch.tensor(_KERNEL) / sum(_KERNEL)
    kernel = (row[:, None] * row).expand(image.shape[1], 1, -1, -1)
    return F.conv2d(F.pad(image, (2, 2, 2, 2), mode="reflect"), kernel, groups=image.shape[1])
