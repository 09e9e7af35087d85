"""CUT's projection network: maps features at some positions of an image to vectors for comparison."""

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from utils.device import at_least_float32

_EPSILON = 1e-7  # added to the length, as in CUT's code; with the initial weights it can be as short as 2e-5


class PatchProjection(nn.Module):
    """A two-layer perceptron for the features of each tap (Park et al. 2020, section 3.2, H_l), in float32.

    feature_channels: Channels of the features at each tap. channels: Width of the hidden layer and of the vectors.
    """

    def __init__(self, feature_channels: Sequence[int], *, channels: int = 256) -> None:
        super().__init__()
        self.taps = nn.ModuleList(
            nn.Sequential(nn.Linear(n_channels, channels), nn.ReLU(), nn.Linear(channels, channels))
            for n_channels in feature_channels
        )

    def forward(self, features: Sequence[Tensor], positions: Sequence[Tensor]) -> list[Tensor]:
        """Return the vectors of each tap, (N * S, channels) of length 1, image after image.

        features: (N, C, H, W) for each tap. positions: (S,) int64 for each tap, row * W + column.
        """
        vectors = []
        with torch.autocast(features[0].device.type, enabled=False):
            for perceptron, feature, places in zip(self.taps, features, positions, strict=True):
                # index the last axis, since a permuted gradient would be channels-last, which is slow in norms
                chosen = at_least_float32(feature).flatten(2)[:, :, places].mT.flatten(0, 1)
                projected = perceptron(chosen)
                vectors.append(projected / (projected.norm(dim=1, keepdim=True) + _EPSILON))
        return vectors


def draw_positions(features: Sequence[Tensor], n_patches: int) -> list[Tensor]:
    """Draw up to n_patches different positions for each tap from torch's generator of the device; (S,) int64 each.

    features: (N, C, H, W) for each tap; all images have the same positions.
    """
    sizes = [feature.shape[2] * feature.shape[3] for feature in features]
    return [torch.randperm(size, device=features[0].device)[:n_patches] for size in sizes]
