"""Sliced Wasserstein distance between two sets of images. It needs no network.

Low resolutions compare structures and colours, high resolutions compare edges and noise (Karras et al. 2018, section
5). Unlike in the paper, the mean and deviation of the real images normalize both sets. Differences in colour and
contrast therefore change the distance.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from metrics.image_metrics import extended
from metrics.metric import SetScore

PATCH_SIDE, N_PROJECTIONS = 7, 512
MOST_PATCHES_OF_IMAGE, PATCHES_OF_SET = 128, 8192  # per pyramid level
_SMALLEST_SIDE = 16  # least side of the coarsest level, in pixels
_LEAST_DEVIATION = 0.25  # grey levels, close to the rounding error; avoids division by 0 in flat channels
_KERNEL = (1.0, 4.0, 6.0, 4.0, 1.0)  # the Laplacian pyramid's kernel along one axis (Burt and Adelson 1983)

SWD_PROTOCOL = (
    f"1000 times the mean over the levels of Laplacian pyramids; patches of {PATCH_SIDE}x{PATCH_SIDE}, scaled by the "
    f"mean and deviation of each channel of the real ones; {N_PROJECTIONS} directions"
)


class LaplacianPatches:
    """Random patches from all levels of an image's Laplacian pyramid. The seed is the number of the image.

    n_images: Number of images in a set. Large sets use fewer patches per image, to save memory.
    """

    def __init__(self, n_images: int) -> None:
        self._n_patches = min(MOST_PATCHES_OF_IMAGE, max(1, PATCHES_OF_SET // max(1, n_images)))
        self.protocol: dict[str, Any] = {"patches_per_image_and_level": self._n_patches}

    @torch.inference_mode()
    def __call__(self, image: Tensor, number: int) -> Tensor:
        """Return the patches of a (C, H, W) uint8 image, (levels, patches, C * 49) float16, the coarsest level first.

        The shorter side of the coarsest level has 16 to 31 pixels. Smaller images are padded with their edges.
        """
        generator = torch.Generator().manual_seed(number)
        levels = laplacian_pyramid(extended(image[None].float().cpu(), _SMALLEST_SIDE))
        return torch.stack([_random_patches(level, self._n_patches, generator) for level in levels]).half()


def laplacian_pyramid(image: Tensor) -> list[Tensor]:
    """Return the coarsest level, then the details that each finer level adds.

    image: (1, C, H, W). Each level has twice the height and width of the previous level, or one pixel less.
    """
    levels = []
    while min(image.shape[2:]) >= 2 * _SMALLEST_SIDE:
        coarse = _blurred(image)[..., ::2, ::2]
        spread = torch.zeros_like(image)
        spread[..., ::2, ::2] = 4 * coarse
        levels.append(image - _blurred(spread))
        image = coarse
    return [image, *reversed(levels)]


def sliced_wasserstein(fakes: Sequence[Tensor], reals: Sequence[Tensor]) -> SetScore:
    """Return the distance between two sets of images: the mean over all levels, times 1000 as in the paper.

    fakes, reals: Result of LaplacianPatches for each image. Only levels that are in both sets are compared.
    """
    n_levels = min(max(map(len, images)) for images in (fakes, reals))
    generator = torch.Generator().manual_seed(0)
    distances = [_distance(_at(level, fakes), _at(level, reals), generator) for level in range(n_levels)]
    return SetScore(1000 * sum(distances) / n_levels)


def _at(level: int, images: Sequence[Tensor]) -> Tensor:
    return torch.cat([image[level] for image in images if level < len(image)]).float()


def _distance(fakes: Tensor, reals: Tensor, generator: torch.Generator) -> float:
    """Return the mean 1-d Wasserstein distance over random directions. Both sets are (P, D) patches; P can differ."""
    directions = F.normalize(torch.randn(fakes.shape[1], N_PROJECTIONS, generator=generator), dim=0)
    n_quantiles = min(len(fakes), len(reals))
    fake, real = (
        _quantiles(directions.T @ _standardized(patches, like=reals).T, n_quantiles) for patches in (fakes, reals)
    )
    return float((fake - real).abs().mean())


def _standardized(patches: Tensor, like: Tensor) -> Tensor:
    """Normalize each channel of `patches` with the mean and the standard deviation of `like`."""
    channels, reference = (p.unflatten(1, (-1, PATCH_SIDE**2)) for p in (patches, like))
    deviation, mean = torch.std_mean(reference, dim=(0, 2), correction=0)
    return ((channels - mean[:, None]) / deviation.clamp(min=_LEAST_DEVIATION)[:, None]).flatten(1)


def _quantiles(projections: Tensor, n_quantiles: int) -> Tensor:
    """Return evenly spaced quantiles of each row, (rows, n_quantiles)."""
    places = (2 * torch.arange(n_quantiles) + 1) * projections.shape[1] // (2 * n_quantiles)
    return torch.from_numpy(np.sort(projections.numpy(), axis=1))[:, places]  # 7 times as fast as torch.sort


def _random_patches(level: Tensor, n_patches: int, generator: torch.Generator) -> Tensor:
    rows, columns = (
        torch.randint(side - PATCH_SIDE + 1, (n_patches,), generator=generator) for side in level.shape[2:]
    )
    windows = level[0].unfold(1, PATCH_SIDE, 1).unfold(2, PATCH_SIDE, 1)  # (C, H', W', 7, 7)
    return windows[:, rows, columns].transpose(0, 1).flatten(1)


def _blurred(image: Tensor) -> Tensor:
    row = torch.tensor(_KERNEL) / sum(_KERNEL)
    kernel = (row[:, None] * row).expand(image.shape[1], 1, -1, -1)
    return F.conv2d(F.pad(image, (2, 2, 2, 2), mode="reflect"), kernel, groups=image.shape[1])
