"""Conversion of state dicts of pix2pixHD, pix2pix, SPADE and OASIS to networks of ours, and back.

The names and shapes of a state dict determine its network. The originals differ from ours in this:

- Nearly every convolution before a norm has a bias. Instance norm cancels it; batch norm's running mean contains it, so
  it is subtracted there. Exported state dicts have zeros for these biases.
- Old files with instance norm contain running statistics that evaluation did not use, and names may begin with
  `module.`.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn
from torch.nn.utils.parametrize import is_parametrized

from models.layers import UpsampledConv2d
from models.originals.layer_names import Layer, NoSuchNetworkError, OriginalWeightsError, Scheme, layers_of
from models.originals.oasis import export_oasis, import_oasis, is_oasis, recognize_oasis
from models.originals.sizes import BUILDERS, Weights
from models.originals.spade import export_spade, import_spade, is_spade, recognize_spade

_STATISTICS = ("running_mean", "running_var", "num_batches_tracked")


@dataclass(frozen=True)
class ImportedNetwork:
    """A network of ours with the weights of an original.

    scheme: how the original names its layers.
    has_biases_before_norms: whether the original has them, as pix2pixHD always and pix2pix with instance norm.
    """

    network: nn.Module
    scheme: Scheme
    has_biases_before_norms: bool


@dataclass(frozen=True)
class LeftOpen:
    """Sizes that the weights of a generator leave open; None for what is usual with its channels.

    n_upsamplings: of SPADE's. noise_channels: of OASIS's, among the channels of its condition.
    """

    n_upsamplings: int | None = None
    noise_channels: int | None = None


@dataclass(frozen=True)
class Conversion:
    """How the files of originals are converted that `layers_of` does not describe.

    recognize: returns the scheme of a state dict, None where it is of others. has: whether a scheme is of these.
    """

    recognize: Callable[[Weights], Scheme | None]
    has: Callable[[Scheme], bool]
    to_ours: Callable[[Weights, Scheme, LeftOpen], nn.Module]
    to_original: Callable[[nn.Module], Weights]


USUAL_SIZES = LeftOpen()


def _import_spade(weights: Weights, scheme: Scheme, sizes: LeftOpen) -> nn.Module:
    if sizes.noise_channels:
        raise OriginalWeightsError(f"takes no noise: generator.noise_channels is 0, not {sizes.noise_channels}")
    return import_spade(weights, scheme, sizes.n_upsamplings)


def _import_oasis(weights: Weights, scheme: Scheme, sizes: LeftOpen) -> nn.Module:
    return import_oasis(weights, scheme, sizes.noise_channels, sizes.n_upsamplings)


CONVERSIONS = (
    Conversion(recognize_spade, is_spade, _import_spade, export_spade),
    Conversion(recognize_oasis, is_oasis, _import_oasis, export_oasis),
)


def import_original(state_dict: Mapping[Any, Any], sizes: LeftOpen = USUAL_SIZES) -> ImportedNetwork:
    """Return the network of ours that computes the same as the original with these weights.

    sizes: those that the weights leave open.

    Raises:
        OriginalWeightsError: no network of pix2pixHD, pix2pix, SPADE or OASIS has these names and shapes.
    """
    if not all(isinstance(key, str) and isinstance(value, torch.Tensor) for key, value in state_dict.items()):
        found = ", ".join(f"{key}: {type(value).__name__}" for key, value in list(state_dict.items())[:3])
        raise OriginalWeightsError(f"expected tensors by name, found {found}")
    weights = {key.removeprefix("module."): value for key, value in state_dict.items()}
    recognized = (conversion.recognize(weights) for conversion in CONVERSIONS)
    scheme = next((scheme for scheme in recognized if scheme), None) or _recognize(weights)
    try:
        if conversion := _conversion(scheme):
            network = conversion.to_ours(weights, scheme, sizes)
            return ImportedNetwork(network.requires_grad_(), scheme, has_biases_before_norms=True)
        with torch.device("meta"):
            network = BUILDERS[scheme](weights)
        layers = list(layers_of(network, scheme))
        converted = _to_ours(weights, layers, network)
        network.load_state_dict(converted, assign=True)
    except (OriginalWeightsError, KeyError, IndexError, ValueError, RuntimeError) as error:
        lines = str(error).splitlines() or [""]
        first = lines[min(1, len(lines) - 1)].strip()  # torch lists every weight that does not fit, below a title
        first = re.sub('", ".*', '", ...', first)  # and all that are missing in one line
        raise OriginalWeightsError(f"resembles the original's {scheme} network, but does not fit: {first}") from error
    has_biases = any(layer.our_norm and f"{layer.original}.bias" in weights for layer in layers)
    return ImportedNetwork(network.requires_grad_(), scheme, has_biases)


def export_original(network: nn.Module, scheme: Scheme, *, biases_before_norms: bool) -> Weights:
    """Return the state dict that the original of `network` would have, on the CPU.

    biases_before_norms: whether it has biases before norms, which are zeros.

    Raises:
        OriginalWeightsError: the original has no such network, for instance because of spectral norm.
    """
    if conversion := _conversion(scheme):
        return conversion.to_original(network)
    _check_exportable(network)
    state = {key: value.detach().cpu() for key, value in network.state_dict().items()}
    weights: Weights = {}
    try:
        for layer in layers_of(network, scheme):
            convolution = network.get_submodule(layer.ours)
            assert isinstance(convolution, nn.Conv2d | nn.ConvTranspose2d)
            weights[f"{layer.original}.weight"] = state.pop(f"{layer.ours}.weight")
            if f"{layer.ours}.bias" in state:
                weights[f"{layer.original}.bias"] = state.pop(f"{layer.ours}.bias")
            elif layer.our_norm and biases_before_norms:
                weights[f"{layer.original}.bias"] = torch.zeros(convolution.out_channels)
            if layer.our_norm:
                for key in [key for key in state if key.startswith(f"{layer.our_norm}.")]:
                    weights[f"{layer.original_norm}.{key.rsplit('.', 1)[1]}"] = state.pop(key)
    except (AssertionError, AttributeError, KeyError) as error:
        raise NoSuchNetworkError(str(error)) from error
    if state:
        raise NoSuchNetworkError(f"{next(iter(state))} does not exist there")
    return weights


def _conversion(scheme: Scheme) -> Conversion | None:
    return next((conversion for conversion in CONVERSIONS if conversion.has(scheme)), None)


def _check_exportable(network: nn.Module) -> None:
    for module in network.modules():
        if is_parametrized(module):
            raise NoSuchNetworkError("spectral_norm")
        if isinstance(module, nn.Upsample | UpsampledConv2d):
            raise NoSuchNetworkError("upsample other than transposed")
        if isinstance(module, nn.Conv2d) and module.padding_mode != "zeros":
            raise NoSuchNetworkError(f"padding={module.padding_mode}")


def _recognize(weights: Weights) -> Scheme:
    shapes = {key: tuple(value.shape) for key, value in weights.items()}
    if "scale0_layer0.0.weight" in shapes:
        return "multiscale"
    if "layer0.0.weight" in shapes:
        return "multiscale_without_features"
    if "model.model.0.weight" in shapes:
        return "unet"
    if "net.0.weight" in shapes:
        return "pixel"
    if "model1_1.1.weight" in shapes:
        return "local"
    if shapes.get("model.1.weight", ())[2:] == (7, 7):
        return "global" if any("conv_block" in key for key in shapes) else "encoder"
    if shapes.get("model.0.weight", ())[2:] == (4, 4):
        return "patch"
    found = ", ".join(f"{key} {list(shape)}" for key, shape in list(shapes.items())[:3]) or "no tensors"
    raise OriginalWeightsError(
        "expected a generator, discriminator or encoder of pix2pixHD, pix2pix, SPADE or OASIS (model.1.weight, "
        f"model.model.0.weight, scale0_layer0.0.weight, ...), found {found}"
    )


def _to_ours(weights: Weights, layers: list[Layer], network: nn.Module) -> Weights:
    left = dict(weights)
    ours: Weights = {}
    for layer in layers:
        ours[f"{layer.ours}.weight"] = left.pop(f"{layer.original}.weight")
        bias = left.pop(f"{layer.original}.bias", None)
        if layer.our_norm is None:
            if bias is not None:
                ours[f"{layer.ours}.bias"] = bias
            continue
        norm = {key: left.pop(f"{layer.original_norm}.{key}", None) for key in ("weight", "bias", *_STATISTICS)}
        if norm["weight"] is None:  # instance norm; the statistics of an old file are dropped
            continue
        if bias is not None and norm["running_mean"] is not None:
            norm["running_mean"] = norm["running_mean"] - bias
        ours |= {f"{layer.our_norm}.{key}": value for key, value in norm.items() if value is not None}
    if left:
        raise KeyError(f"{next(iter(left))} is unknown")
    return ours
