"""Types and helpers that describe how the original programs store the weights of their networks."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, get_args

from torch import Tensor, nn

from utils.errors import UserError

StateDict = dict[str, Tensor]
Names = dict[str, str]  # our layer name -> the original's layer name, for norms and layers with tensors
FileRole = Literal["generator", "encoder", "discriminator", "projection"]
Family = Literal["pix2pixHD", "pix2pix", "CycleGAN", "CUT", "SPADE", "OASIS"]
FAMILIES: tuple[Family, ...] = get_args(Family)

Rules = Mapping[str, str | Callable[[re.Match[str]], str]]  # regular expression -> replacement
NAMED = (nn.Conv2d, nn.ConvTranspose2d, nn.Linear, nn.InstanceNorm2d, nn.BatchNorm2d)

SPECTRAL_NORM = {  # our tensor name -> the originals' tensor name
    "parametrizations.weight.original": "weight_orig",
    "parametrizations.weight.0._u": "weight_u",
    "parametrizations.weight.0._v": "weight_v",
}


class OriginalWeightsError(UserError):
    """Error for a state dict that belongs to no original network, or for a network that no original program has."""


@dataclass(frozen=True)
class OriginalFormat:
    """The file format of an original network, and the matching network class of this project.

    families: Programs that have this network. Error messages name the first program.
    network: Network class of this project.
    recognizes: Returns whether a state dict has the names and shapes of this network.
    settings: Returns the arguments of `network`, given a state dict and values for the arguments in `left_open`.
    names: Returns the original layer names of an instance of `network`.
    fixed: Arguments of `network` that are constants in the original.
    spectral_norm: Whether the original has spectral norm. None if spectral norm is an option of the original.
    is_written: Whether exports can use this format.
    constants: Returns the additional constant tensors in the original's file, by name.
    left_open: Arguments of `network` that the tensor shapes do not determine.
    """

    families: tuple[Family, ...]
    role: FileRole
    network: type[nn.Module]
    recognizes: Callable[[StateDict], bool]
    settings: Callable[[StateDict, Mapping[str, int]], dict[str, Any]]
    names: Callable[[Any], Names]
    fixed: Mapping[str, Any] = field(default_factory=dict)
    spectral_norm: bool | None = False
    is_written: bool = True
    constants: Callable[[Any], StateDict] = lambda _: {}
    left_open: tuple[str, ...] = ()


def has(key: str, sides: tuple[int, int] | None = None) -> Callable[[StateDict], bool]:
    """Return a function that tests if a state dict has tensor `key`. sides: Kernel size; None means any."""
    return lambda weights: key in weights and sides in (None, tuple(weights[key].shape[2:]))


def renamed(rules: Rules, network: nn.Module, layers: tuple[type[nn.Module], ...] = NAMED) -> Names:
    """Return the original names of the layers whose types are in `layers`. Apply all rules to our names, in order."""
    names = {ours: ours for ours, layer in network.named_modules() if isinstance(layer, layers)}
    for pattern, theirs in rules.items():
        names = {ours: re.sub(pattern, theirs, name) for ours, name in names.items()}
    return names


def original_keys(network: nn.Module, names: Names) -> dict[str, str]:
    """Return the original name of each tensor in our network's state dict.

    Raises:
        KeyError: `names` lacks the layer of a tensor.
    """
    keys = {}
    for key in network.state_dict():
        layer = key.partition(".parametrizations.")[0] if ".parametrizations." in key else key.rpartition(".")[0]
        tensor = key.removeprefix(f"{layer}.")
        keys[key] = f"{names[layer]}.{SPECTRAL_NORM.get(tensor, tensor)}"
    return keys


def norms_behind(names: Names) -> Names:
    """Map each convolution to the norm that cancels its bias, if there is one. All names are ours.

    The norm is the next layer in a Sequential, or the second norm of a SPADE block.
    """
    behind = {}
    for layer in names:
        container, _, last = layer.rpartition(".")
        norm = f"{container}.{int(last) + 1}" if last.isdigit() else f"{layer.removesuffix('conv1')}norm2.norm"
        if norm in names:
            behind[layer] = norm
    return behind
