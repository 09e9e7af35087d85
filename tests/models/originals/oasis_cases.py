"""The recorded cases of OASIS: networks of ours with the weights of a case, and the original's names."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from models.originals.spade import our_name as our_spade_name
from models.segmentation_discriminator import SegmentationUnet
from models.spade_generator import SpadeGenerator
from models.spectral_norm import SpectralIteration, add_spectral_norm
from tests.models.originals.spade_cases import Weights, as_double

_PARTS = {
    "weight_orig": "parametrizations.weight.original",
    "weight_u": "parametrizations.weight.0._u",
    "weight_v": "parametrizations.weight.0._v",
}


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
    network = SpadeGenerator(
        in_channels=config["semantic_nc"],
        base_channels=config["channels_G"],
        n_middle_blocks=1,
        hidden_channels=config["spade_hidden"],
        noise_channels=config["z_dim"] if has_noise else 0,
        norm="instance" if config["param_free_norm"] == "instance" else "batch",
    ).double()
    add_spectral_norm(network, iteration=iteration)
    converted = {our_generator_name(key): value for key, value in as_double(weights).items()}
    for number in range(6):
        bias = converted.pop(f"blocks.{number}.conv1.bias")
        mean = f"blocks.{number}.norm2.norm.running_mean"
        if mean in converted:
            converted[mean] -= bias
    network.load_state_dict(converted)
    if has_noise:
        network.noise = FixedNoise()  # type: ignore[assignment]
    return network


def discriminator_of(weights: Weights, config: dict[str, Any]) -> SegmentationUnet:
    network = SegmentationUnet(config["widths"], config["last_width"], config["semantic_nc"] + 1).double()
    add_spectral_norm(network, outer=False, iteration="v_first")
    network.load_state_dict({our_discriminator_name(key): value for key, value in as_double(weights).items()})
    return network


def our_generator_name(key: str) -> str:
    first, _, rest = key.partition(".")
    if first != "body":
        return our_spade_name(key)
    number, _, rest = rest.partition(".")
    return our_spade_name(f"head_0.{rest}").replace("first_norm", "norm").replace("blocks.0.", f"blocks.{number}.")


def our_discriminator_name(key: str) -> str:
    if key.startswith("layer_up_last."):
        return key.replace("layer_up_last", "head")
    body, number, conv, *_, tensor = key.split(".")
    part = "shortcut" if conv == "conv_s" else conv
    return f"{body.removeprefix('body_')}s.{number}.{part}.{_PARTS.get(tensor, tensor)}"


def by_original_names(named: Weights, originals: list[str], our_name: Callable[[str], str]) -> Weights:
    """The tensors by the names that the original has for them."""
    theirs = {our_name(name): name for name in originals}
    return {theirs[name]: value for name, value in named.items()}
