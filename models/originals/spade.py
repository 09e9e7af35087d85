"""Conversion of state dicts of SPADE's generator, discriminator and style encoder to networks of ours, and back.

Its files hold the weights under spectral norm undivided, with the vectors of the power iteration: `weight_orig`,
`weight_u`, `weight_v`. Files of torch 0.4.1 to 1.0.0 hold the divided weight in place of `weight_v`.
"""

import math
import re
from collections.abc import Callable, Iterator, Mapping

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from models.originals.layer_names import NoSuchNetworkError, OriginalWeightsError, Scheme
from models.patch_discriminator import MultiscalePatchDiscriminator
from models.spade_generator import SpadeBlock, SpadeGenerator
from models.spectral_norm import add_spectral_norm
from models.style_encoder import StyleEncoder

Weights = dict[str, Tensor]

_CITYSCAPES_CHANNELS = 36  # labels and instance edges; its generator alone upsamples six times
_BLOCKS = ("head_0", "G_middle_0", "G_middle_1", "up_0", "up_1", "up_2", "up_3", "up_4")
SPECTRAL_NORM = {  # of the originals' hook, and ours
    "weight_orig": "parametrizations.weight.original",
    "weight_u": "parametrizations.weight.0._u",
    "weight_v": "parametrizations.weight.0._v",
}
_PARTS = SPECTRAL_NORM | {
    "norm_0": "norm1",
    "norm_1": "norm2",
    "norm_s": "shortcut_norm",
    "conv_0": "conv1",
    "conv_1": "conv2",
    "conv_s": "shortcut",
    "param_free_norm": "norm",
    "mlp_shared": "shared",
    "mlp_gamma": "scale",
    "mlp_beta": "shift",
}
_ENDS = {"fc": "stem", "conv_img": "head.1"}
_LINEAR = {"fc_mu": "mean", "fc_var": "log_variance"}
_STYLE_CHANNELS = 256  # that SPADE's encoder fixes


def recognize_spade(weights: Mapping[str, Tensor]) -> Scheme | None:
    """Return which of SPADE's networks a state dict is of, None where it is of none."""
    if "head_0.conv_0.weight_orig" in weights or "head_0.conv_0.weight" in weights:
        return "spade"
    if "fc_mu.weight" in weights:
        return "spade_encoder"
    return "spade_multiscale" if "discriminator_0.model0.0.weight" in weights else None


def is_spade(scheme: Scheme) -> bool:
    """Return whether a scheme is one of this module's."""
    return scheme in ("spade", "spade_multiscale", "spade_encoder")


def import_spade(state: Mapping[str, Tensor], scheme: Scheme, n_upsamplings: int | None = None) -> nn.Module:
    """Return the network of ours that computes the same as SPADE's with these weights.

    n_upsamplings: of the generator, which the weights leave open between 5 and 6; None: 6 with the channels of
        Cityscapes, otherwise 5.

    Raises:
        OriginalWeightsError, KeyError, ValueError, RuntimeError: the weights are not of such a network.
    """
    weights = with_v(state)
    network: nn.Module
    with torch.device("meta"):
        match scheme:
            case "spade":
                network, name = _generator(weights, n_upsamplings), our_name
            case "spade_encoder":
                network, name = _encoder(weights), our_encoder_name
            case _:
                network, name = _discriminator(weights), our_discriminator_name
    converted = {name(key): value for key, value in weights.items()}
    load_generator_weights(network, converted)
    return network


def load_generator_weights(network: nn.Module, converted: Weights) -> None:
    """Load weights by our names, in place; they may have biases before norms, and lack batch norm's counts."""
    for block in [part for part in _block_names(network) if f"{part}.conv1.bias" in converted]:
        bias = converted.pop(f"{block}.conv1.bias")  # the norm behind it subtracts it
        if (mean := converted.get(f"{block}.norm2.norm.running_mean")) is not None:
            converted[f"{block}.norm2.norm.running_mean"] = mean - bias
    for key, value in network.state_dict().items():
        if key.endswith("num_batches_tracked"):  # SPADE's norm does not count, nor do old files hold the count
            converted.setdefault(key, torch.zeros((), dtype=value.dtype))
    network.load_state_dict(converted, assign=True)


def export_spade(network: nn.Module) -> Weights:
    """Return the state dict that SPADE would have of a network, on the CPU.

    Raises:
        OriginalWeightsError: SPADE has no such network.
    """
    state = {key: value.detach().cpu() for key, value in network.state_dict().items()}
    _check_exportable(network)
    names = {SpadeGenerator: original_name, StyleEncoder: original_encoder_name}
    name = names.get(type(network), original_discriminator_name)
    weights = {name(key, network): value for key, value in state.items()}
    for block in _block_names(network):
        weights[f"{_BLOCKS[int(block.split('.')[1])]}.conv_0.bias"] = torch.zeros(
            state[f"{block}.conv1.parametrizations.weight.original"].shape[0]
        )
    return weights


def our_name(key: str) -> str:
    """Return our name of a tensor of SPADE's generator."""
    first, _, rest = key.partition(".")
    if first in _ENDS:
        return f"{_ENDS[first]}.{rest}"
    if first not in _BLOCKS:
        raise KeyError(f"{key} is unknown")
    return ".".join([f"blocks.{_BLOCKS.index(first)}", *(_PARTS.get(part, part) for part in rest.split("."))])


def original_name(key: str, _network: nn.Module | None = None) -> str:
    """Return SPADE's name of a tensor of our generator."""
    for original, ours in _ENDS.items():
        if key.startswith(f"{ours}."):
            return f"{original}{key.removeprefix(ours)}"
    _, number, rest = key.split(".", 2)
    for original, ours in _PARTS.items():
        rest = re.sub(rf"(^|\.){re.escape(ours)}($|\.)", rf"\g<1>{original}\g<2>", rest)
    return f"{_BLOCKS[int(number)]}.{rest}"


def our_discriminator_name(key: str) -> str:
    """Return our name of a tensor of SPADE's discriminator."""
    match = re.fullmatch(r"discriminator_(\d+)\.model(\d+)\.(0\.0|0)\.(\w+)", key)
    if match is None:
        raise KeyError(f"{key} is unknown")
    scale, number, place, tensor = match.groups()
    is_last = place == "0" and number != "0"
    layer = "head" if is_last else f"layers.{number}.0"
    return f"scales.{scale}.{layer}.{_PARTS.get(tensor, tensor)}"


def original_discriminator_name(key: str, network: nn.Module) -> str:
    """Return SPADE's name of a tensor of our discriminator."""
    _, scale, rest = key.split(".", 2)
    tensor = next((theirs for theirs, ours in _PARTS.items() if rest.endswith(ours)), rest.rpartition(".")[2])
    if rest.startswith("head."):
        assert isinstance(network, MultiscalePatchDiscriminator)
        n_layers = len(list(network.scales[int(scale)].get_submodule("layers").children()))
        return f"discriminator_{scale}.model{n_layers}.0.{tensor}"
    number = rest.split(".")[1]
    return f"discriminator_{scale}.model{number}.{'0' if number == '0' else '0.0'}.{tensor}"


def our_encoder_name(key: str) -> str:
    """Return our name of a tensor of SPADE's style encoder."""
    first, _, tensor = key.partition(".")
    if first in _LINEAR:
        return f"{_LINEAR[first]}.{tensor}"
    match = re.fullmatch(r"layer([1-6])\.0\.(\w+)", key)
    if match is None:
        raise KeyError(f"{key} is unknown")
    return f"layers.{int(match[1]) - 1}.0.{_PARTS.get(match[2], match[2])}"


def original_encoder_name(key: str, _network: nn.Module | None = None) -> str:
    """Return SPADE's name of a tensor of our style encoder."""
    for original, ours in _LINEAR.items():
        if key.startswith(f"{ours}."):
            return f"{original}{key.removeprefix(ours)}"
    _, number, _, tensor = key.split(".", 3)
    theirs = next((theirs for theirs, ours in _PARTS.items() if tensor == ours), tensor)
    return f"layer{int(number) + 1}.0.{theirs}"


def with_v(state: Mapping[str, Tensor]) -> Weights:
    """Return the weights with `weight_v` where an old file has the divided weight instead."""
    weights = dict(state)
    for key in [key for key in state if key.endswith(".weight_orig")]:
        layer = key.removesuffix("_orig")
        divided = weights.pop(layer, None)
        if f"{layer}_v" in weights or divided is None:
            continue
        matrix, u = state[key].flatten(1), state[f"{layer}_u"]
        v, sigma = matrix.T @ u, state[key].norm() / divided.norm()
        # of that length, so that u W v is the sigma by which the file's weight was divided
        weights[f"{layer}_v"] = F.normalize(v, dim=0) * (sigma / v.norm())
    return weights


def _generator(weights: Weights, n_upsamplings: int | None) -> SpadeGenerator:
    is_normed = "head_0.conv_0.weight_orig" in weights
    hidden_channels, condition_channels = weights["head_0.norm_0.mlp_shared.0.weight"].shape[:2]
    most_channels = weights["head_0.conv_0.weight_orig" if is_normed else "head_0.conv_0.weight"].shape[0]
    possible = [5, 6]
    if any(key.startswith("up_4.") for key in weights):
        possible = [7]
    elif condition_channels == _CITYSCAPES_CHANNELS:
        possible = [6, 5]
    chosen = possible[0] if n_upsamplings is None else n_upsamplings
    if chosen not in possible:
        expected = " or ".join(map(str, sorted(possible)))
        raise OriginalWeightsError(f"has the weights of {expected} upsamplings, not {chosen}")
    has_style = weights["fc.weight"].dim() == 2  # --use_vae
    if not 16 <= most_channels <= weights["fc.weight"].shape[0]:
        raise OriginalWeightsError(f"fc.weight has {weights['fc.weight'].shape[0]} outputs, head_0 {most_channels}")
    height, width = _style_sides(weights["fc.weight"].shape[0] // most_channels)
    generator = SpadeGenerator(
        in_channels=condition_channels,
        out_channels=weights["conv_img.weight"].shape[0],
        base_channels=most_channels // 16,
        n_upsamplings=chosen,
        hidden_channels=hidden_channels,
        style_channels=weights["fc.weight"].shape[1] if has_style else 0,
        style_height=height,
        style_width=width,
        norm="batch" if "head_0.norm_0.param_free_norm.running_mean" in weights else "instance",
    )
    if is_normed:
        add_spectral_norm(generator, iteration="v_first")
    return generator


def _style_sides(n_pixels: int) -> tuple[int, int]:
    """Return the sides of a map of so many pixels that are nearest to each other, height <= width."""
    height = next(side for side in range(math.isqrt(n_pixels), 0, -1) if n_pixels % side == 0)
    return height, n_pixels // height


def _encoder(weights: Weights) -> StyleEncoder:
    is_normed = "layer1.0.weight_orig" in weights
    base_channels, in_channels = weights["layer1.0.weight_orig" if is_normed else "layer1.0.weight"].shape[:2]
    encoder = StyleEncoder(
        in_channels=in_channels, style_channels=weights["fc_mu.weight"].shape[0], base_channels=base_channels
    )
    if is_normed:
        add_spectral_norm(encoder, iteration="v_first")
    return encoder


def _discriminator(weights: Weights) -> MultiscalePatchDiscriminator:
    first = weights["discriminator_0.model0.0.weight"]
    numbers = [re.fullmatch(r"discriminator_(\d+)\.model(\d+)\..*", key) for key in weights]
    found = [(int(match[1]), int(match[2])) for match in numbers if match]
    n_scales, n_layers = (max(numbers) for numbers in zip(*found, strict=True))
    discriminator = MultiscalePatchDiscriminator(
        source_channels=first.shape[1] - 3,
        base_channels=first.shape[0],
        n_layers=n_layers - 1,
        n_scales=n_scales + 1,
    )
    if "discriminator_0.model1.0.0.weight_orig" in weights:
        add_spectral_norm(discriminator, outer=False, iteration="v_first")
    return discriminator


def _block_names(network: nn.Module) -> Iterator[str]:
    return (name for name, part in network.named_modules() if isinstance(part, SpadeBlock))


def _check_exportable(network: nn.Module) -> None:
    """Raise OriginalWeightsError where SPADE has no such network."""
    checks: dict[str, Callable[[], bool]] = {
        "n_upsamplings below 5": lambda: isinstance(network, SpadeGenerator) and network.n_upsamplings < 5,
        "n_middle_blocks 1": lambda: isinstance(network, SpadeGenerator) and network.n_middle_blocks == 1,
        "noise_channels": lambda: isinstance(network, SpadeGenerator) and network.noise.n_channels > 0,
        "style.channels other than 256": lambda: (
            isinstance(network, StyleEncoder) and network.style_channels != _STYLE_CHANNELS
        ),
        "no spectral_norm": lambda: not any("parametrizations" in key for key in network.state_dict()),
    }
    for fault, is_there in checks.items():
        if is_there():
            raise NoSuchNetworkError(fault)
