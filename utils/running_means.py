"""Means of 0-d tensors over many passes, without asking the device for them at each."""

from collections.abc import Mapping

import torch
from torch import Tensor

from utils.distributed import World


class RunningMeans:
    """Sums on the device; `take` makes the one transfer."""

    def __init__(self) -> None:
        self._sums: dict[str, Tensor] = {}
        self._counts: dict[str, int] = {}

    def add(self, values: Mapping[str, Tensor], prefix: str) -> None:
        """Add the 0-d values of one pass under the tags `prefix` + name."""
        for name, value in values.items():
            tag = prefix + name
            seen = value.detach().float()
            self._sums[tag] = self._sums[tag] + seen if tag in self._sums else seen
            self._counts[tag] = self._counts.get(tag, 0) + 1

    def take(self, world: World) -> dict[str, float]:
        """Means over the passes since the last call and over the processes, by tag; starts anew."""
        means = torch.stack([total / self._counts[tag] for tag, total in self._sums.items()])
        taken = dict(zip(self._sums, world.mean(means).tolist(), strict=True))
        self._sums, self._counts = {}, {}
        return taken
