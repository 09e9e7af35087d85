"""Displacement of the images of a pair, and the warning about it."""

from collections.abc import Iterator, Mapping
from statistics import median_low

import torch
import torch.nn.functional as F
from torch import Tensor

from utils.text import counted, listed

MIN_SIDE = 48  # pixels; smaller images have too few contours
_MAX_SIDE = 512  # pixels of the middle that is compared
_MAX_SHARE = 1 / 8  # largest displacement, as a share of a side
_CLEAR_PEAK = 12.0  # height of a peak above the mean, in standard deviations
_BEYOND_REST = 1.5  # least ratio of a peak to the score of no displacement
_FEWEST = 3  # pairs with the same displacement
_SMALL_SHIFT = 2  # pixels, if most pairs have it
_LARGE_SHIFT = 5  # pixels, of a single pair

Shift = tuple[int, int]
"""Pixels to the right and down."""


def displacement(source: Tensor, target: Tensor, *, source_is_ids: bool) -> Shift | None:
    """Return how many pixels a target is to the right of and below its source, or None if that is not clear.

    This is phase correlation (Kuglin and Hines 1975) of contours, because a label map and a photo share nothing else.
    It searches up to an eighth of a side. For drawn lines it is exact to 3 pixels. scikit-image's
    phase_cross_correlation also returns a displacement for unrelated images, without a measure of its quality.

    source: (C, H, W) image, or (1, H, W) ids. target: (C, H, W) image. They are compared only if they have one size.
    """
    height, width = (min(side, _MAX_SIDE) for side in target.shape[-2:])
    if source.shape[-2:] != target.shape[-2:] or min(height, width) < MIN_SIDE:
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


def shift_warnings(shifts: Mapping[str, Shift], what: str) -> Iterator[str]:
    """Yield a line if most samples have the same displacement, or some a large one.

    shifts: Displacements by name of sample. what: The displaced images, for the message.
    """
    if not shifts:
        return
    x, y = (median_low(shift[axis] for shift in shifts.values()) for axis in (0, 1))
    alike = [name for name, shift in shifts.items() if max(abs(shift[0] - x), abs(shift[1] - y)) <= 1]
    hint = "look at them with --show 12, and align the images"
    if max(abs(x), abs(y)) >= _SMALL_SHIFT and len(alike) >= max(_FEWEST, 0.6 * len(shifts)):
        yield f"{what} seem to be shifted by {_place(x, y)} in {len(alike)} of {len(shifts)} pairs: {hint}"
        return
    far = [f"{name} by {_place(*shift)}" for name, shift in shifts.items() if max(map(abs, shift)) >= _LARGE_SHIFT]
    if far:
        yield f"{what} seem to be shifted in {len(far)} of {len(shifts)} pairs: {listed(far)}; {hint}"


def _place(x: int, y: int) -> str:
    parts = [(x, "to the right" if x > 0 else "to the left"), (y, "down" if y > 0 else "up")]
    return " and ".join(f"{counted(abs(number), 'pixel')} {where}" for number, where in parts if number)
