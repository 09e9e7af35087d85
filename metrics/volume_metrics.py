"""MAE, PSNR, SSIM and MS-SSIM of a translated volume within a mask, as defined by the SynthRAD challenges.

SSIM follows SynthRAD2023, and MS-SSIM follows SynthRAD2025. Both compare boxes of 7x7x7 voxels. MS-SSIM differs from
Wang et al. (2003): the luminance counts at every scale, and exponents apply to voxels, not to the mean of a scale.
"""

import math
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from utils.structural_similarity import SCALE_WEIGHTS

Figures = dict[str, float | None]
_Array = NDArray[Any]
_Slice = tuple[_Array, _Array]  # target and fake, (2, H, W) float64; mark of each voxel, (H, W) uint8

_SIDE, _MARGIN = 7, 3  # side of the box in voxels; width of the border where boxes would leave the volume
_LEAST_SIDE = 97  # the shortest side that has room for one box at the coarsest scale
_COMPLETE = 2  # mark of voxels within the mask whose box has no padding; other marks: 1 within the mask, 0 outside


def volume_figures(target: _Array, fake: _Array, mask: _Array | None, bounds: tuple[float, float]) -> Figures:
    """Compare two volumes (D, H, W) of any dtype, in units such as HU, and return the figures by name.

    mae: Mean absolute difference in units. The volumes are not clipped.
    psnr: Peak signal-to-noise ratio in dB. None for equal volumes.
    ms_ssim: MS-SSIM, 0 to 1. If a side has fewer than 97 voxels, the edges are repeated, and only the middle of this
        side counts at the coarsest scale. None if a scale has no voxel within the mask.
    ssim: SSIM, up to 1. None if no voxel within the mask is at least 3 voxels away from all borders.
    n_voxels: Number of voxels within the mask. If it is 0, the other figures are None.

    mask: Array (D, H, W) that is above 0 inside; None for all voxels.
    bounds: Lowest and highest value. All figures except mae clip the volumes to this range.
    """
    absolute, squared, similarity = _Mean(), _Mean(), _Mean()
    for number in range(len(target)):
        inside = ... if mask is None else mask[number] > 0
        real, translated = (volume[number][inside].astype(np.float64) for volume in (target, fake))
        absolute.add(np.abs(real - translated))
        squared.add(np.square(real.clip(*bounds) - translated.clip(*bounds)))
    span, multiscale = bounds[1] - bounds[0], 1.0
    slices: Callable[[], Iterator[_Slice]] = partial(_finest, target, fake, mask, bounds)
    for weight in SCALE_WEIGHTS:
        term = _Mean()
        for values, marks in _similarities(slices(), span):
            term.add(values.clip(min=0) ** weight)
            similarity.add(values[marks == _COMPLETE])
        multiscale *= min(term.value, 1)
        slices = partial(iter, [*_halved(slices())])
    psnr = 10 * math.log10(span**2 / (squared.value or math.nan))
    figures = {"mae": absolute.value, "psnr": psnr, "ms_ssim": multiscale, "ssim": similarity.value}
    return {name: None if math.isnan(value) else value for name, value in figures.items()} | {"n_voxels": squared.count}


def summary(patients: Mapping[str, Mapping[str, float | None]]) -> dict[str, Figures]:
    """Return the mean and the standard deviation (divided by n, not n - 1) of each figure over all patients.

    Figures that are None or NaN are left out. If a figure is missing for all patients, its mean is None.

    patients: Figures of each patient, by the patient's name.

    Returns:
        Figures by name, for "mean" and for "std".
    """
    known: dict[str, list[float]] = {}
    for name, value in (figure for figures in patients.values() for figure in figures.items()):
        known.setdefault(name, []).extend([] if value is None or math.isnan(value) else [value])
    return {
        "mean": {name: float(np.mean(values)) if values else None for name, values in known.items()},
        "std": {name: float(np.std(values)) if values else None for name, values in known.items()},
    }


class _Mean:
    """The mean of all added values, NaN if there are none, and their number `count`."""

    def __init__(self) -> None:
        self._total, self.count = 0.0, 0

    def add(self, values: _Array) -> None:
        self._total += float(values.sum())
        self.count += values.size

    @property
    def value(self) -> float:
        return self._total / self.count if self.count else math.nan


def _finest(target: _Array, fake: _Array, mask: _Array | None, bounds: tuple[float, float]) -> Iterator[_Slice]:
    """Yield the slices of the finest scale, clipped and padded. Subtract the lowest value. Voxels outside become 0."""
    depth, *size = target.shape
    across, *pads = [(n // 2, n - n // 2) for n in (max(0, _LEAST_SIDE - side) for side in (depth, *size))]
    for number in np.pad(np.arange(depth), across, mode="edge"):
        pair = np.stack([target[number], fake[number]]).astype(np.float64)
        marks = np.ones(size, np.uint8) if mask is None else (mask[number] > 0).astype(np.uint8)
        pair = (pair.clip(*bounds) - bounds[0]) * marks
        if _MARGIN <= number < depth - _MARGIN:
            marks[_MARGIN:-_MARGIN, _MARGIN:-_MARGIN] *= _COMPLETE
        yield np.pad(pair, [(0, 0), *pads], mode="edge"), np.pad(marks, pads, mode="edge")


def _similarities(slices: Iterator[_Slice], span: float) -> Iterator[tuple[_Array, _Array]]:
    """Yield the SSIM of each voxel within the mask, with its mark, slice by slice. Leave out voxels near a border.

    With the sum s and the difference d of both volumes, and with their local means m and variances v, SSIM is
    (m_s^2 - m_d^2 + 2 C1) / (m_s^2 + m_d^2 + 2 C1) * (v_s - v_d + 2 C2) / (v_s + v_d + 2 C2).
    """
    n = _SIDE**3
    window, total = deque[_Slice](), np.zeros(())
    for (target, fake), marks in slices:
        both = np.stack([target + fake, target - fake])
        sums = _box_sums(_box_sums(np.concatenate([both, both * both]), 1), 2)
        total = total + sums
        window.append((sums, marks[_MARGIN:-_MARGIN, _MARGIN:-_MARGIN]))
        if len(window) == _SIDE:
            middle = window[_MARGIN][1]
            inside = middle > 0
            means = total[:, inside] / n
            squares = np.square(means[:2])
            variances = (means[2:] - squares) * (n / (n - 1))
            similarity = _likeness(squares, (0.01 * span) ** 2) * _likeness(variances, (0.03 * span) ** 2)
            yield similarity, middle[inside]
            total -= window.popleft()[0]


def _likeness(values: _Array, constant: float) -> _Array:
    (of_sum, of_difference), constant = values, 2 * constant
    return (of_sum - of_difference + constant) / (of_sum + of_difference + constant)


def _box_sums(values: _Array, axis: int) -> _Array:
    """Return the sums of _SIDE adjacent values of a (4, H, W) array along an axis."""
    values = np.moveaxis(values, axis, 0)
    pairs = values[:-1] + values[1:]
    fours = pairs[:-2] + pairs[2:]
    return np.moveaxis(fours[:-3] + pairs[4:-1] + values[6:], 0, axis)


def _halved(slices: Iterator[_Slice]) -> Iterator[_Slice]:
    """Yield the slices of the next scale: means of 2x2x2 voxels, from i - 1 and i along each axis for even i."""
    before: _Array | float = 0.0
    for number, (values, marks) in enumerate(slices):
        if number % 2 == 0:
            padded = np.pad(values + before, ((0, 0), (1, 0), (1, 0)))
            rows = padded[:, :-1:2] + padded[:, 1::2]
            yield (rows[:, :, :-1:2] + rows[:, :, 1::2]) / 8, marks[::2, ::2].clip(max=1)
        before = values
