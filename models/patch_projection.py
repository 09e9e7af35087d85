"""CUT's projection network, which maps features at sampled positions to vectors that CUT's loss compares."""

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from utils.device import at_least_float32

_EPSILON = 1e-7  # added to the length of vectors, as in CUT's code; initial vectors can be as short as 2e-5


class PatchProjection(nn.Module):
    """A two-layer perceptron in float32 for each tap, that is, each compared layer (Park et al. 2020, section 3.2).

    feature_channels: Channels of the features at each tap.
    channels: Width of the hidden layer and length of the output vectors.
    """

    def __init__(self, feature_channels: Sequence[int], *, channels: int = 256) -> None:
        super().__init__()
        self.taps = nn.ModuleList(
            nn.Sequential(nn.Linear(n_channels, channels), nn.ReLU(), nn.Linear(channels, channels))
            for n_channels in feature_channels
        )

    def forward(self, features: Sequence[Tensor], positions: Sequence[Tensor]) -> list[Tensor]:
        """Return unit vectors for each tap, (N * S, channels): all vectors of image 0, then all vectors of image 1.

        features: (N, C, H, W) for each tap. positions: (S,) int64 for each tap, row * W + column.
        """
        vectors = []
        with torch.autocast(features[0].device.type, enabled=False):
            for perceptron, feature, places in zip(self.taps, features, positions, strict=True):
                # permute only after indexing, because a channels-last gradient would be slow in norms
                chosen = at_least_float32(feature).flatten(2)[:, :, places].mT.flatten(0, 1)
                projected = perceptron(chosen)
                vectors.append(projected / (projected.norm(dim=1, keepdim=True) + _EPSILON))
        return vectors


def draw_positions(features: Sequence[Tensor], n_patches: int) -> list[Tensor]:
    """Return up to n_patches random positions for each tap, (S,) int64, without duplicates.

    features: (N, C, H, W) for each tap. All images share the same positions.
    """
    sizes = [feature.shape[2] * feature.shape[3] for feature in features]
    return [torch.randperm(size, device=features[0].device)[:n_patches] for size in sizes]
