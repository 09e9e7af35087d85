"""Line drawings of photographs: Canny's edge detector (Canny 1986) in torch."""

import math

import torch
from torch import Tensor
from torch.nn import functional as F

_STRONG_SHARE = 0.06  # share of pixels with enough contrast to begin a line
_MIN_THRESHOLD, _MAX_THRESHOLD = 0.05, 0.25  # contrast of grey levels in [0, 1]
_WEAK = 0.4  # share of that contrast at which a line ends
_SOBEL = ((-1.0, 0.0, 1.0), (-2.0, 0.0, 2.0), (-1.0, 0.0, 1.0))
_SOBEL_VARIANCE = 1 / 3  # variance that the filter adds along its direction, in pixels
_LUMA = (0.299, 0.587, 0.114)


def draw_edges(photo: Tensor, sigma: float) -> Tensor:
    """Return black lines, one pixel wide, on white: (3, H, W) uint8 of 0 and 255.

    photo: (3, H, W) uint8 RGB.
    sigma: Standard deviation of the Gaussian blur, in pixels. A larger one leaves fewer lines, from larger shapes.
    """
    grey = (photo.float() / 255 * torch.tensor(_LUMA)[:, None, None]).sum(0)
    # a blurred contour of contrast c rises by at most c / (sqrt(2 pi) sigma) a pixel; Sobel's filter blurs a little too
    rise = _gradient(_blurred(grey, sigma))
    gradient = rise * math.sqrt(2 * math.pi * (sigma**2 + _SOBEL_VARIANCE))
    length = gradient.norm(dim=0).flatten()
    strong = length.kthvalue(max(1, round((1 - _STRONG_SHARE) * len(length)))).values.clamp(
        _MIN_THRESHOLD, _MAX_THRESHOLD
    )
    ridge = _thinned(gradient)
    lines = _connected(ridge > strong, ridge > _WEAK * strong)
    return torch.where(lines, 0, 255).to(torch.uint8).expand(3, -1, -1).contiguous()


def _blurred(grey: Tensor, sigma: float) -> Tensor:
    """Return a blurred (H, W) image; pixels beyond the border repeat it."""
    radius = max(1, round(3 * sigma))
    kernel = torch.exp(-(torch.arange(-radius, radius + 1.0) ** 2) / (2 * sigma**2))
    kernel /= kernel.sum()
    padded = F.pad(grey[None, None], [radius] * 4, mode="replicate")
    return F.conv2d(F.conv2d(padded, kernel[None, None, None]), kernel[None, None, :, None])[0, 0]


def _gradient(grey: Tensor) -> Tensor:
    """Return the (2, H, W) gradient of an (H, W) image: to the right and downwards."""
    sobel = torch.tensor(_SOBEL) / 8
    padded = F.pad(grey[None, None], [1] * 4, mode="replicate")
    return F.conv2d(padded, torch.stack([sobel, sobel.T])[:, None])[0]


def _thinned(gradient: Tensor) -> Tensor:
    """Return the (H, W) length of a gradient, and 0 where a neighbour across the line has a larger one."""
    height, width = gradient.shape[1:]
    length = gradient.norm(dim=0)
    padded = F.pad(length, [1] * 4)
    # the direction across the line, in steps of 45 degrees: right, down right, down, down left
    octant = (torch.atan2(gradient[1], gradient[0]) / (torch.pi / 4)).round().long() % 4
    is_ridge = torch.zeros_like(length, dtype=torch.bool)
    for number, (down, right) in enumerate(((0, 1), (1, 1), (1, 0), (1, -1))):
        after = padded[1 + down :, 1 + right :][:height, :width]
        before = padded[1 - down :, 1 - right :][:height, :width]
        # keep one of two equal neighbours
        is_ridge |= (octant == number) & (length >= after) & (length > before)
    return length * is_ridge


def _connected(strong: Tensor, weak: Tensor) -> Tensor:
    """Return the (H, W) weak pixels that weak ones connect with a strong one."""
    height, width = strong.shape
    lines, allowed = (F.pad(mask, [1] * 4).flatten() for mask in (strong, weak))
    row = width + 2
    around = torch.tensor([-row - 1, -row, -row + 1, -1, 1, row - 1, row, row + 1])
    ends = lines.nonzero()[:, 0]
    while len(ends):
        ends = (ends[:, None] + around).flatten()
        ends = ends[allowed[ends] & ~lines[ends]].unique()
        lines[ends] = True
    return lines.view(height + 2, row)[1:-1, 1:-1]
