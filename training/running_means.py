"""Means of 0-d tensors over many passes, without a transfer from the device in each pass."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from itertools import chain
from typing import Any

import torch
from torch import Tensor

from utils.distributed import World


class RunningMeans:
    """Sums and counts on the device, which change in place. Only `flush` transfers them.

    Means ignore values that are not finite, because one overflow would hide all other values of an interval.
    """

    def __init__(self) -> None:
        self._totals: dict[tuple[str, ...], Tensor] = {}  # (3, tags): sums, numbers of finite values, and of all

    def add(self, values: Mapping[str, Tensor], prefix: str) -> None:
        """Add the 0-d values of one pass under the tags `prefix` + name."""
        tags = tuple(prefix + name for name in values)
        seen = torch.stack([value.detach().float() for value in values.values()])
        is_finite = seen.isfinite()
        present = torch.stack([seen.where(is_finite, 0), is_finite.float(), torch.ones_like(seen)])
        if tags not in self._totals:
            self._totals[tags] = torch.zeros_like(present)
        self._totals[tags].add_(present)

    def flush(self, world: World, *, resets: bool = True) -> dict[str, float]:
        """Return the means over the passes since the last reset and over the processes, by tag, and reset them.

        A mean is NaN if no value is finite.
        """
        totals = list(self._totals.values())
        taken = world.mean(torch.cat(totals, dim=1)).cpu().double()
        for total in totals if resets else ():
            total.zero_()
        summed: dict[str, Tensor] = defaultdict(lambda: taken.new_zeros(len(taken)))
        for tag, column in zip(chain.from_iterable(self._totals), taken.T, strict=True):
            summed[tag] = summed[tag] + column
        return {tag: float(total / n_finite) for tag, (total, n_finite, n_seen) in summed.items() if n_seen}

    def state(self) -> list[tuple[list[str], Tensor]]:
        """Return the tags of each pass since the last reset, with sums and counts, (3, tags) float32."""
        return [(list(tags), total.cpu()) for tags, total in self._totals.items() if total[2].any()]

    def load_state(self, state: Sequence[Any], device: torch.device) -> None:
        """Load the state that `state` returned."""
        for tags, total in state:
            self._totals[tuple(tags)] = torch.zeros(3, len(tags), device=device).copy_(total)
