"""Shift search: for each patch of a translated image, find the most similar part of the target nearby."""

from dataclasses import dataclass
from math import hypot

import torch
import torch.nn.functional as F
from torch import Tensor

from utils.device import at_least_float32

FREE_FROM = 0.5  # share of the planned steps after which the penalty is 0


@dataclass(frozen=True)
class Match:
    """A target whose patches were shifted to fit a translated image.

    target: Shifted target, (N, C, H, W). weights: Shifted pixel weights, (N, 1, H, W), or None.
    shifts: Position in the target minus position of the patch, (N, 2, rows, columns) int64, x and y in pixels.
    """

    target: Tensor
    weights: Tensor | None
    shifts: Tensor

    @property
    def means(self) -> dict[str, Tensor]:
        """Means over all patches in pixels, 0-d each: shift_x, shift_y, and distance (the length of the shift)."""
        x, y = self.shifts.float().unbind(1)
        return {"shift_x": x.mean(), "shift_y": y.mean(), "distance": torch.hypot(x, y).mean()}


class ShiftSearch:
    """A search for the best shift of each patch, for pairs that are not quite aligned.

    The cost of a shift is the mean absolute difference of the patch, times (1 + penalty * length of the shift). The
    least cost wins. Among equal costs, the shortest shift wins. The penalty prevents large shifts of blurred images.

    reach: Largest shift in x and y, in pixels. patch: Side of a patch, in pixels. Patches at the border can be smaller.
    penalty: Relative increase of the cost per pixel of shift at the first step. It decreases to 0.
    """

    def __init__(self, reach: int, patch: int, penalty: float, device: torch.device | None = None) -> None:
        self._reach, self._patch, self._first_penalty = reach, patch, penalty
        offsets = range(-reach, reach + 1)
        computed = [(x, y) for y in offsets for x in offsets]  # same order as in `_costs`
        preferred = sorted(computed, key=lambda shift: (shift[0] ** 2 + shift[1] ** 2, shift[1], shift[0]))
        ranks = {shift: rank for rank, shift in enumerate(preferred)}
        self._shifts = torch.tensor(preferred, device=device)
        self._ranks = torch.tensor([ranks[shift] for shift in computed], device=device)[:, None, None]
        self._lengths = torch.tensor([hypot(*of) for of in computed], dtype=torch.float64, device=device)[:, None, None]
        self._penalty = torch.tensor(penalty, dtype=torch.float64, device=device)

    def follow_schedule(self, share: float) -> None:
        """Set the penalty in place, for CUDA graphs. `share` is the completed fraction of the planned steps."""
        self._penalty.fill_(self._first_penalty * max(0.0, 1.0 - share / FREE_FROM))

    @torch.no_grad()
    def __call__(self, fake: Tensor, target: Tensor, weights: Tensor | None = None) -> Match:
        """Match targets to translated images, (N, C, H, W) each. The host does not wait for the device.

        weights: Weights of the target's pixels, (N, 1, H, W). Pixels of weight 0 are ignored. A shift is excluded if it
            compares less than half as many pixels as another shift. If all pixels are ignored, the shift is 0.
        """
        with torch.autocast(fake.device.type, enabled=False):
            costs = self._costs(at_least_float32(fake), at_least_float32(target), weights)
            costs = costs * (1 + self._penalty * self._lengths).to(costs.dtype)
            least = costs.amin(dim=1, keepdim=True)
            # argmin on a GPU can return any of several equal costs. If a cost is NaN, the shift is 0
            rank = torch.where(costs > least, len(self._shifts), self._ranks).amin(dim=1)
            shifts = self._shifts[rank].movedim(-1, 1)
        matched = [self._moved(images, shifts) for images in (target, weights) if images is not None]
        return Match(matched[0], None if weights is None else matched[1], shifts)

    def _costs(self, fake: Tensor, target: Tensor, weights: Tensor | None) -> Tensor:
        """Return the mean absolute differences of the patches at all shifts, (N, shifts, rows, columns)."""
        (height, width), sums, counts = fake.shape[-2:], list[Tensor](), list[Tensor]()
        compared = [target] if weights is None else [target, (weights > 0).to(fake)]
        padded = [F.pad(images, [self._reach] * 4, mode="replicate") for images in compared]
        for y in range(2 * self._reach + 1):  # all x shifts at once, so that a GPU needs few kernels
            moved, *counted = (images[..., y : y + height, :].unfold(-1, width, 1) for images in padded)
            difference = (fake[..., None, :] - moved).abs_().mean(dim=1)  # (N, H, shifts, W)
            for is_counted in counted:
                difference = difference * is_counted[:, 0]
                counts.append(self._pooled(is_counted[:, 0]))
            sums.append(self._pooled(difference))
        if not counts:
            return torch.cat(sums, dim=1)
        n_counted = torch.cat(counts, dim=1)
        is_possible = (n_counted > 0) & (n_counted >= n_counted.amax(dim=1, keepdim=True) / 2)
        return torch.where(is_possible, torch.cat(sums, dim=1) / n_counted, torch.inf)

    def _pooled(self, values: Tensor) -> Tensor:
        """Return the mean of (N, H, shifts, W) values over each patch, (N, shifts, rows, columns)."""
        sides = min(self._patch, values.shape[1]), min(self._patch, values.shape[3])
        return F.avg_pool2d(values.transpose(1, 2), sides, ceil_mode=True, count_include_pad=False)

    def _moved(self, images: Tensor, shifts: Tensor) -> Tensor:
        """Return (N, C, H, W) images with each patch taken from its shifted position. Border pixels are repeated."""
        height, width = images.shape[-2:]
        rows, columns = (torch.arange(side, device=images.device) for side in (height, width))
        x, y = shifts[:, :, rows[:, None] // self._patch, columns // self._patch].unbind(1)
        places = (rows[:, None] + y).clamp(0, height - 1) * width + (columns + x).clamp(0, width - 1)
        return images.flatten(2).gather(2, places.flatten(1)[:, None].expand(-1, images.shape[1], -1)).view_as(images)
