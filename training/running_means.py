"""Means of 0-d tensors over many passes, without a transfer from the device at each."""

from collections import defaultdict
from collections.abc import Mapping

import torch
from torch import Tensor

from utils.distributed import World


class RunningMeans:
    """Sums and counts on the device, added to in place, as a CUDA graph can too; `flush` makes the one transfer."""

    def __init__(self) -> None:
        self._totals: dict[tuple[str, ...], Tensor] = {}  # by the tags of an addition: its sums, then their number

    def add(self, values: Mapping[str, Tensor], prefix: str) -> None:
        """Add the 0-d values of one pass under the tags `prefix` + name."""
        tags = tuple(prefix + name for name in values)
        seen = torch.stack([value.detach().float() for value in values.values()])
        if tags not in self._totals:
            self._totals[tags] = seen.new_zeros(len(tags) + 1)
        total = self._totals[tags]
        total[:-1].add_(seen)
        total[-1:].add_(1)

    def flush(self, world: World) -> dict[str, float]:
        """Return the means over the passes since the last call and over the processes, by tag, and reset them."""
        totals = list(self._totals.values())
        taken = world.mean(torch.cat(totals)).cpu().split([len(total) for total in totals])
        for total in totals:
            total.zero_()
        sums: dict[str, float] = defaultdict(float)
        counts: dict[str, float] = defaultdict(float)
        for tags, (*values, count) in zip(self._totals, (total.tolist() for total in taken), strict=True):
            for tag, value in zip(tags, values, strict=True):
                sums[tag] += value
                counts[tag] += count
        return {tag: sums[tag] / counts[tag] for tag in sums if counts[tag]}
