"""The displacement of the two images of a pair against each other."""

import torch
import torch.nn.functional as F
from torch import Tensor

MIN_SIDE = 48  # pixels; smaller images have too few contours
_MAX_SIDE = 512  # pixels of the middle that is compared
_MAX_SHARE = 1 / 8  # of a side: farther displacements are not looked for
_CLEAR_PEAK = 12.0  # height of a peak above the mean, in standard deviations
_BEYOND_REST = 1.5  # times that a peak is higher than that of no displacement


def displacement(source: Tensor, target: Tensor, *, source_is_ids: bool) -> tuple[int, int] | None:
    """Return how many pixels a target lies to the right of and below its source; None where that is not clear.

    The middles of both are compared, by phase correlation (Kuglin and Hines 1975) of their contours, since a label map
    and a photo share nothing else. Displacements of up to an eighth of a side are found; that of drawn lines to within
    3 pixels. scikit-image's phase_cross_correlation would name one for unrelated images too, without a measure of it.

    source: (C, H, W) image, or (1, H, W) ids. target: (C, H, W) image. The larger one is reduced to the other's sides,
        whose pixels are counted; None where the sides have another ratio.
    """
    sides = min(tuple(source.shape[-2:]), tuple(target.shape[-2:]))
    if source.shape[-2] * target.shape[-1] != source.shape[-1] * target.shape[-2]:
        return None
    source, target = _reduced(source, sides, source_is_ids), _reduced(target, sides)
    height, width = (min(side, _MAX_SIDE) for side in sides)
    if min(height, width) < MIN_SIDE:
        return None
    window = torch.hann_window(height)[:, None] * torch.hann_window(width)
    contours = [_contours(_middle(source, height, width), source_is_ids), _contours(_middle(target, height, width))]
    of_source, of_target = (torch.fft.rfft2(window * (strength - strength.mean())) for strength in contours)
    cross = of_source.conj() * of_target
    correlation = torch.fft.irfft2(cross / cross.abs().sqrt().clamp_min(1e-12), s=(height, width))
    score = (correlation - correlation.mean()) / correlation.std().clamp_min(1e-12)
    far_y, far_x = int(height * _MAX_SHARE), int(width * _MAX_SHARE)
    near = score.roll((far_y, far_x), (0, 1))[: 2 * far_y + 1, : 2 * far_x + 1]
    peak, place = near.flatten().max(0)
    if peak < _CLEAR_PEAK:
        return None
    if peak < _BEYOND_REST * near[far_y - 1 : far_y + 2, far_x - 1 : far_x + 2].max():
        return 0, 0
    y, x = divmod(int(place), 2 * far_x + 1)
    return x - far_x, y - far_y


def _reduced(image: Tensor, sides: tuple[int, ...], is_ids: bool = False) -> Tensor:
    """Return an image at other sides: the means of its pixels, or ids of the nearest."""
    if image.shape[-2:] == sides:
        return image
    return F.interpolate(image[None].float(), sides, mode="nearest-exact" if is_ids else "area")[0]


def _middle(image: Tensor, height: int, width: int) -> Tensor:
    top, left = (image.shape[-2] - height) // 2, (image.shape[-1] - width) // 2
    return image[:, top : top + height, left : left + width]


def _contours(image: Tensor, is_ids: bool = False) -> Tensor:
    """Return (H, W) float32: the strength of contours."""
    grey = image.float() if is_ids else image.float().mean(0, keepdim=True)
    down, across = (F.pad(grey.diff(dim=d), pad)[0] for d, pad in ((1, (0, 0, 0, 1)), (2, (0, 1))))
    if is_ids:
        return ((down != 0) | (across != 0)).float()
    return torch.hypot(down, across).sqrt()
