"""The recorded cases of OASIS: networks of ours with the weights of a case, and the original's names."""

from typing import Any

import torch
from torch import Tensor, nn

from models.originals.weights import import_original
from models.segmentation_discriminator import SegmentationUnet
from models.spade_generator import SpadeGenerator
from models.spectral_norm import SpectralIteration, add_spectral_norm
from tests.models.originals.spade_cases import Weights, as_double, original_names, with_iteration


class FixedNoise(nn.Module):
    """In place of NoiseChannels: recorded noise, (N, n_channels)."""

    def __init__(self) -> None:
        super().__init__()
        self.z = torch.zeros(0)

    def forward(self, condition: Tensor) -> Tensor:
        z = self.z.double()[:, :, None, None].expand(-1, -1, *condition.shape[2:])
        return torch.cat([z, condition], dim=1)


def generator_of(weights: Weights, config: dict[str, Any], iteration: SpectralIteration = "v_first") -> SpadeGenerator:
    """The generator of ours; with noise, of which `network.noise.z` is to be set."""
    has_noise = not config["no_3dnoise"]
    network = import_original(as_double(weights), {"noise_channels": config["z_dim"] if has_noise else 0}).network
    assert isinstance(network, SpadeGenerator)
    with_iteration(network, iteration)
    if has_noise:
        network.noise = FixedNoise()  # type: ignore[assignment]
    return network


def discriminator_of(weights: Weights, config: dict[str, Any]) -> SegmentationUnet:
    network = SegmentationUnet(config["widths"], config["last_width"], config["semantic_nc"] + 1).double()
    add_spectral_norm(network, outer=False, iteration="v_first")
    weights = as_double(weights)
    network.load_state_dict({ours: weights[original] for ours, original in original_names(network).items()})
    return network
