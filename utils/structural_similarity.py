"""SSIM (Wang et al. 2004) and MS-SSIM (Wang et al. 2003), computed together, with the conventions of torchmetrics.

Let s = a + b and d = a - b for two images a and b. Local means are written m, and local variances v:

    luminance = (m_s^2 - m_d^2 + 2 C1) / (m_s^2 + m_d^2 + 2 C1)    contrast = (v_s - v_d + 2 C2) / (v_s + v_d + 2 C2)

These terms equal the paper's terms, but need no covariance. Rounding errors in numerator and denominator mostly cancel.
"""

import torch
import torch.nn.functional as F
from torch import Tensor

WINDOW, SIGMA = 11, 1.5  # pixels
SCALE_WEIGHTS = (0.0448, 0.2856, 0.3001, 0.2363, 0.1333)  # MS-SSIM, finest scale first
_C1, _C2 = 0.01**2, 0.03**2  # values are in [0, 1]
_MARGIN = WINDOW // 2
_BAND = 64  # number of rows that are computed together, so that they fit in the CPU cache


def scale_weights(side: int) -> tuple[float, ...]:
    """Return the weights of MS-SSIM's scales for images whose shorter side has `side` pixels.

    Images of 176 pixels or more have all five scales. Smaller images have fewer: the window must fit in the smallest
    scale, and torchmetrics must accept the number of scales. The weights of fewer scales are normalized to sum to 1.
    """
    n_scales = next(n for n in range(5, 0, -1) if n == 1 or min(side >> (n - 1), side // (n - 1) ** 2) >= WINDOW)
    weights = SCALE_WEIGHTS[:n_scales]
    if n_scales == len(SCALE_WEIGHTS):  # the published weights sum to 1.0001
        return weights
    return tuple(weight / sum(weights) for weight in weights)


def structural_similarity(fake: Tensor, target: Tensor) -> tuple[Tensor, Tensor]:
    """Return the SSIM of each pixel, (1, C, H, W), and MS-SSIM, 0-d. Images are reflected at their edges.

    fake, target: Images (1, C, H, W), float, in [0, 1], with sides of at least WINDOW pixels.
    """
    terms, finest = scale_terms(fake, target)
    multiscale = terms[0].new_ones(())
    for term, weight in zip(terms, scale_weights(min(fake.shape[-2:])), strict=True):
        multiscale = multiscale * term.clamp(min=0) ** weight
    return finest, multiscale


def scale_terms(fake: Tensor, target: Tensor) -> tuple[list[Tensor], Tensor]:
    """Return the factors of MS-SSIM, 0-d each, and the SSIM of each pixel at the finest scale, (N, C, H, W).

    The factor of the last scale is its mean SSIM. The other factors are mean contrast terms. Images are (N, C, H, W).
    """
    if fake.is_cuda:  # cuDNN could compute float32 convolutions in TF32
        fake, target = fake.double(), target.double()
    maps = []
    for _ in scale_weights(min(fake.shape[-2:])):
        maps.append(_similarity(fake, target))
        fake, target = F.avg_pool2d(fake, 2), F.avg_pool2d(target, 2)
    inner = [contrast[..., _MARGIN:-_MARGIN, _MARGIN:-_MARGIN] for _, contrast in maps[:-1]]
    return [values.mean() for values in (*inner, maps[-1][0])], maps[0][0]


def _similarity(fake: Tensor, target: Tensor) -> tuple[Tensor, Tensor]:
    """Return the SSIM and its contrast term for each pixel."""
    height = fake.shape[2]
    fake, target = (F.pad(image, (_MARGIN,) * 4, mode="reflect") for image in (fake, target))
    both = torch.cat([fake + target, fake - target], dim=1).contiguous(memory_format=torch.channels_last)
    bands = [_of_band(both[:, :, top : top + _BAND + 2 * _MARGIN]) for top in range(0, height, _BAND)]
    similarities, contrasts = zip(*bands, strict=True)
    return torch.cat(similarities, dim=2), torch.cat(contrasts, dim=2)


def _of_band(both: Tensor) -> tuple[Tensor, Tensor]:
    means, mean_squares = _windowed(torch.cat([both, both.square()], dim=1)).chunk(2, dim=1)
    squares = means.square()
    contrast = _likeness((mean_squares - squares).clamp_(min=0), _C2)
    return _likeness(squares, _C1) * contrast, contrast


def _windowed(images: Tensor) -> Tensor:
    """Return the Gaussian-weighted mean of the window around each pixel."""
    places = torch.arange(WINDOW, dtype=torch.float64, device=images.device) - _MARGIN
    row = torch.exp(places.square() / (-2 * SIGMA**2))
    kernel = (row / row.sum()).to(images).view(1, 1, 1, -1).expand(images.shape[1], -1, -1, -1)
    return F.conv2d(F.conv2d(images, kernel, groups=len(kernel)), kernel.transpose(2, 3), groups=len(kernel))


def _likeness(both: Tensor, constant: float) -> Tensor:
    of_sum, of_difference = both.chunk(2, dim=1)
    return (of_sum - of_difference + 2 * constant) / (of_sum + of_difference + 2 * constant)
