"""Conversion of state dicts of the original programs to our networks, and back.

The names and shapes of a state dict determine the network. The originals' state dicts differ from ours:

- Nearly every convolution before a norm has a bias, which the norm cancels. Imports subtract this bias from the running
  mean of batch norm, and then drop it. Layers that CUT's loss compares keep their biases. Exports write zeros.
- CUT's state dicts contain the constant filters of antialiased layers.
- Old files contain unused running statistics of instance norm. Names can begin with `module.`. For spectral norm,
  files from torch 0.4.1 to 1.0.0 lack the vector `weight_v`, and contain the normalized weight instead.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import nn

from models.originals import pix2pix, spade
from models.originals.format import Names, OriginalFormat, OriginalWeightsError, StateDict, norms_behind, original_keys
from models.patch_discriminator import Discriminator
from models.spectral_norm import add_spectral_norm, spectral_norms

FORMATS: dict[str, OriginalFormat] = spade.FORMATS | pix2pix.FORMATS
_LEFT_OPEN = ("n_upsamplings", "noise_channels", "biased_downs")  # arguments that shapes do not determine
_MISMATCHES = (OriginalWeightsError, KeyError, IndexError, ValueError, RuntimeError)
_IGNORED = ("running_mean", "running_var", "num_batches_tracked", "filt")  # statistics, CUT's filters


@dataclass(frozen=True)
class ImportedNetwork:
    """A network of this project with the weights of an original network.

    scheme: Name of the file format in FORMATS.
    settings: Arguments of the network's class.
    """

    network: nn.Module
    scheme: str
    settings: dict[str, Any]


def import_original(state_dict: Mapping[Any, Any], chosen: Mapping[str, int] | None = None) -> ImportedNetwork:
    """Return a network of this project with these weights. It computes the same as the original network.

    chosen: Values for arguments that the shapes do not determine: n_upsamplings of SPADE's generator, noise_channels of
        OASIS's generator, and biased_downs of ResNet generators. Missing arguments get their defaults.

    Raises:
        OriginalWeightsError: No original network has these names and shapes.
    """
    others = [key for key, value in state_dict.items() if not (isinstance(key, str) and torch.is_tensor(value))]
    if others:
        raise OriginalWeightsError(f"{others[0]}: {type(state_dict[others[0]]).__name__}, expected tensors by name")
    weights = _with_v({key.removeprefix("module."): value for key, value in state_dict.items()})
    scheme = next((name for name, known in FORMATS.items() if known.recognizes(weights)), None)
    if scheme is None:
        found = ", ".join(f"{key} {list(value.shape)}" for key, value in list(weights.items())[:3]) or "no tensors"
        raise OriginalWeightsError(
            "expected a network of pix2pixHD, pix2pix, CycleGAN, CUT, SPADE or OASIS (model.1.weight, "
            f"model.model.0.weight, scale0_layer0.0.weight, ...), found {found}"
        )
    description = FORMATS[scheme]
    try:
        network, settings = _empty_network(description, weights, chosen or {})
        network.load_state_dict(_to_ours(weights, network, description.names(network)), assign=True)
    except _MISMATCHES as error:
        reason = f"resembles the original's {scheme} network, but does not fit: {_reason(error)}"
        raise OriginalWeightsError(reason) from error
    return ImportedNetwork(network.requires_grad_(), scheme, settings)


def scheme_of(network: nn.Module) -> str:
    """Return the name in FORMATS of the file format that stores `network` without changes.

    Raises:
        OriginalWeightsError: No original program has this network.
    """
    differences = []
    for scheme, description in FORMATS.items():
        if type(network) is description.network and description.is_written:
            difference = _difference(network, description)
            if not difference:
                return scheme
            differences.append(f"{description.families[0]}: {difference}")
    found = "; ".join(differences) or type(network).__name__
    is_judge = isinstance(network, Discriminator)
    remedy = "Other runs load it with init.discriminator=RUN" if is_judge else "Use --format safetensors"
    raise OriginalWeightsError(f"no original has this network ({found}). {remedy}.")


def _difference(network: nn.Module, description: OriginalFormat) -> str:
    """Return a text that says what an export and import would change in a network, or "" if nothing changes."""
    has_spectral_norm = bool(spectral_norms(network))
    if description.spectral_norm not in (None, has_spectral_norm):
        return f"spectral_norm is {str(description.spectral_norm).lower()} in the original"
    chosen = {key: getattr(network, key) for key in _LEFT_OPEN if hasattr(network, key)}
    reason, settings = "", dict[str, Any]()
    try:
        keys = original_keys(network, description.names(network))
        weights = {keys[key]: value for key, value in network.state_dict().items()}
        read, settings = _empty_network(description, weights, chosen)
        ours, theirs = _layers(network), _layers(read)
        different = next((path for path in [*ours, *theirs] if ours.get(path) != theirs.get(path)), None)
        if different is not None:
            reason = f"{different} is {theirs.get(different)} in the original, not {ours.get(different)}"
        elif not description.recognizes(weights):
            reason = "the original's layers have other names"
    except _MISMATCHES as error:
        reason = _reason(error)
    for key, value in {**settings, **description.fixed}.items():  # name a setting, because users do not know layers
        of_network = getattr(network, key, settings.get(key, value))
        if of_network != value:
            return f"{key} is {value} in the original, not {of_network}"
    return reason


def _layers(network: nn.Module) -> dict[str, str]:
    return {path: f"{type(layer).__name__}({layer.extra_repr()})" for path, layer in network.named_modules()}


def export_original(network: nn.Module, scheme: str, *, biases_before_norms: bool) -> StateDict:
    """Return the weights of `network` as a state dict of the original program, on the CPU.

    scheme: Format of the file, from `scheme_of`.
    biases_before_norms: Whether to add a bias of zeros to each convolution before a norm.
    """
    description = FORMATS[scheme]
    names = description.names(network)
    keys = original_keys(network, names)
    weights = {keys[key]: value.detach().cpu() for key, value in network.state_dict().items()}
    for layer in norms_behind(names) if biases_before_norms else ():
        convolution = network.get_submodule(layer)
        assert isinstance(convolution, nn.Conv2d | nn.ConvTranspose2d)
        weights.setdefault(f"{names[layer]}.bias", torch.zeros(convolution.out_channels))
    return weights | description.constants(network)


def _empty_network(
    description: OriginalFormat, weights: StateDict, chosen: Mapping[str, int]
) -> tuple[nn.Module, dict[str, Any]]:
    """Return our network for these weights, on the meta device, and its settings."""
    settings = description.settings(weights, chosen)
    with torch.device("meta"):
        network = description.network(**settings)
        if description.spectral_norm is not False and any(key.endswith(".weight_orig") for key in weights):
            add_spectral_norm(network, outer=False, iteration="v_first")
    return network, settings


def _reason(error: Exception) -> str:
    if isinstance(error, KeyError):
        return f"{error.args[0]} is missing"
    first = str(error).splitlines()[:2][-1].strip()  # torch writes a title and a line for each problem
    return re.sub('", ".*', '", ...', first)  # a line can list many missing weights


def _with_v(weights: StateDict) -> StateDict:
    """Return the weights. If an old file lacks spectral norm's `weight_v`, add it."""
    weights = dict(weights)
    for key in [key for key in weights if key.endswith(".weight_orig")]:
        layer = key.removesuffix("_orig")
        divided = weights.pop(layer, None)
        if f"{layer}_v" in weights or divided is None:
            continue
        matrix, u = weights[key].flatten(1), weights[f"{layer}_u"]
        v, sigma = matrix.T @ u, weights[key].norm() / divided.norm()
        # this length of v makes u W v equal to sigma
        weights[f"{layer}_v"] = F.normalize(v, dim=0) * (sigma / v.norm())
    return weights


def _to_ours(weights: StateDict, network: nn.Module, names: Names) -> StateDict:
    left = dict(weights)
    ours = {key: left.pop(original) for key, original in original_keys(network, names).items() if original in left}
    for layer, norm in norms_behind(names).items():
        bias = left.pop(f"{names[layer]}.bias", None)
        mean = f"{norm}.running_mean"
        if bias is not None and mean in ours:
            ours[mean] = ours[mean] - bias
    unknown = [key for key in left if key.rpartition(".")[2] not in _IGNORED]
    if unknown:
        raise OriginalWeightsError(f"{unknown[0]} is unknown")
    for key, value in network.state_dict().items():
        if key.endswith("num_batches_tracked"):  # missing in SPADE's norm and in old files
            ours.setdefault(key, torch.zeros((), dtype=value.dtype))
    return ours
