"""CUT's projection network: from features at some positions of an image to vectors that are compared."""

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from utils.precision import at_least_float32

_EPSILON = 1e-7  # added to the length, as in CUT's code; the initial weights make vectors as short as 2e-5


class PatchProjection(nn.Module):
    """A two-layer perceptron for the features of each tap (Park et al. 2020, section 3.2, H_l), in float32.

    feature_channels: of the features at each tap, in the order of the taps.
    channels: of the hidden layer and of the vectors.
    """

    def __init__(self, feature_channels: Sequence[int], *, channels: int = 256) -> None:
        super().__init__()
        self.taps = nn.ModuleList(
            nn.Sequential(nn.Linear(n_channels, channels), nn.ReLU(), nn.Linear(channels, channels))
            for n_channels in feature_channels
        )

    def forward(self, features: Sequence[Tensor], positions: Sequence[Tensor]) -> list[Tensor]:
        """Return the vectors of each tap, (N * S, channels) of length 1, those of an image behind each other.

        features: of each tap, (N, C, H, W). positions: of each tap, (S,) int64, row * W + column.
        """
        vectors = []
        with torch.autocast(features[0].device.type, enabled=False):
            for perceptron, feature, places in zip(self.taps, features, positions, strict=True):
                # along the last axis: a permuted gradient would have strides of channels last, which norms dislike
                chosen = at_least_float32(feature).flatten(2)[:, :, places].mT.flatten(0, 1)
                projected = perceptron(chosen)
                vectors.append(projected / (projected.norm(dim=1, keepdim=True) + _EPSILON))
        return vectors


def draw_positions(features: Sequence[Tensor], n_patches: int) -> list[Tensor]:
    """Return S different positions for each tap, (S,) int64 on the features' device; S is n_patches, or all there are.

    features: of each tap, (N, C, H, W); the positions serve all images. Draws come from torch's global generator of the
    device, which checkpoints hold.
    """
    sizes = [feature.shape[2] * feature.shape[3] for feature in features]
    return [torch.randperm(size, device=features[0].device)[:n_patches] for size in sizes]
