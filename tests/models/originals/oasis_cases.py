"""The recorded cases of OASIS: networks of ours with the weights of a case, and the original's names."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from models.originals.oasis import import_oasis, our_discriminator_name
from models.segmentation_discriminator import SegmentationUnet
from models.spade_generator import SpadeGenerator
from models.spectral_norm import SpectralIteration, add_spectral_norm
from tests.models.originals.spade_cases import Weights, as_double, with_iteration


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
    network = import_oasis(as_double(weights), "oasis", config["z_dim"] if has_noise else 0)
    assert isinstance(network, SpadeGenerator)
    with_iteration(network.requires_grad_(), iteration)
    if has_noise:
        network.noise = FixedNoise()  # type: ignore[assignment]
    return network


def discriminator_of(weights: Weights, config: dict[str, Any]) -> SegmentationUnet:
    network = SegmentationUnet(config["widths"], config["last_width"], config["semantic_nc"] + 1).double()
    add_spectral_norm(network, outer=False, iteration="v_first")
    network.load_state_dict({our_unet_name(key): value for key, value in as_double(weights).items()})
    return network


def our_unet_name(key: str) -> str:
    return our_discriminator_name(key).removeprefix("unet.")


def by_original_names(named: Weights, originals: list[str], our_name: Callable[[str], str]) -> Weights:
    """The tensors by the names that the original has for them."""
    theirs = {our_name(name): name for name in originals}
    return {theirs[name]: value for name, value in named.items()}
