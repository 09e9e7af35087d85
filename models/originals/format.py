"""The file of an original's network: the network of ours that it holds, and the names of its tensors."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, get_args

from torch import Tensor, nn

from utils.errors import UserError

StateDict = dict[str, Tensor]
Names = dict[str, str]  # the original's names of layers that have tensors or are norms, by ours
FileRole = Literal["generator", "encoder", "discriminator", "projection"]
Family = Literal["pix2pixHD", "pix2pix", "CycleGAN", "CUT", "SPADE", "OASIS"]
FAMILIES: tuple[Family, ...] = get_args(Family)

Rules = Mapping[str, str | Callable[[re.Match[str]], str]]  # replacements by regular expression
NAMED = (nn.Conv2d, nn.ConvTranspose2d, nn.Linear, nn.InstanceNorm2d, nn.BatchNorm2d)

SPECTRAL_NORM = {  # names of the originals' hook for spectral norm, by ours
    "parametrizations.weight.original": "weight_orig",
    "parametrizations.weight.0._u": "weight_u",
    "parametrizations.weight.0._v": "weight_v",
}


class OriginalWeightsError(UserError):
    """A state dict belongs to no original, or a network has no counterpart there."""


@dataclass(frozen=True)
class OriginalFormat:
    """A network of the originals in its file and in this project.

    families: Programs that have it; the first is the default.
    network: Our class.
    recognizes: Returns whether a state dict has the names and shapes of this network.
    settings: Returns the arguments of our class for these shapes. Chosen values decide what the shapes leave open.
    names: Returns the names of the layers of our network.
    fixed: Arguments of our class that are constants in the original.
    spectral_norm: Whether the original has spectral norm; None if that is an option there.
    is_written: Whether networks of ours are written in this format.
    constants: Returns further tensors of the original's file by name.
    left_open: Settings of a generator that the shapes leave open.
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
    """Return a test whether a state dict has this tensor, and whether its last two sides are `sides`."""
    return lambda weights: key in weights and sides in (None, tuple(weights[key].shape[2:]))


def renamed(rules: Rules, network: nn.Module, layers: tuple[type[nn.Module], ...] = NAMED) -> Names:
    """Return the names of the layers of these types: ours, changed by each rule in turn."""
    names = {ours: ours for ours, layer in network.named_modules() if isinstance(layer, layers)}
    for pattern, theirs in rules.items():
        names = {ours: re.sub(pattern, theirs, name) for ours, name in names.items()}
    return names


def original_keys(network: nn.Module, names: Names) -> dict[str, str]:
    """Return the original's names of the tensors of a network, by ours.

    Raises:
        KeyError: A tensor is in none of the layers.
    """
    keys = {}
    for key in network.state_dict():
        layer = key.partition(".parametrizations.")[0] if ".parametrizations." in key else key.rpartition(".")[0]
        tensor = key.removeprefix(f"{layer}.")
        keys[key] = f"{names[layer]}.{SPECTRAL_NORM.get(tensor, tensor)}"
    return keys


def norms_behind(names: Names) -> Names:
    """Return the norms behind convolutions, whose biases they cancel, by our names of both.

    A norm is the next layer in a Sequential, or the second norm of a SPADE block.
    """
    behind = {}
    for layer in names:
        container, _, last = layer.rpartition(".")
        norm = f"{container}.{int(last) + 1}" if last.isdigit() else f"{layer.removesuffix('conv1')}norm2.norm"
        if norm in names:
            behind[layer] = norm
    return behind
