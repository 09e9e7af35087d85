"""Channels and layers of generators whose output is larger or smaller than their input."""

import math

_NARROWEST = 16  # channels of a convolution at a multiple of the source's sides, unless base_channels is less


def n_doublings(scale: float) -> int:
    """Return how often the sides of a source are doubled; halvings are negative. `scale` is a power of 2."""
    return round(math.log2(scale))


def widths_beyond(base_channels: int, scale: float) -> list[int]:
    """Return the channels after each doubling beyond the sides of the source: half of those before, down to 16."""
    narrowest = min(base_channels, _NARROWEST)
    return [max(base_channels // 2**level, narrowest) for level in range(1, n_doublings(scale) + 1)]
