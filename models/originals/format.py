"""Weight files of the original programs: our network for each file, and the names of its tensors."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, get_args

from torch import Tensor, nn

from utils.errors import UserError

StateDict = dict[str, Tensor]
Names = dict[str, str]  # from our layer names to the original's, for norms and layers with tensors
FileRole = Literal["generator", "encoder", "discriminator", "projection"]
Family = Literal["pix2pixHD", "pix2pix", "CycleGAN", "CUT", "SPADE", "OASIS"]
FAMILIES: tuple[Family, ...] = get_args(Family)

Rules = Mapping[str, str | Callable[[re.Match[str]], str]]  # replacements by regular expression
NAMED = (nn.Conv2d, nn.ConvTranspose2d, nn.Linear, nn.InstanceNorm2d, nn.BatchNorm2d)

SPECTRAL_NORM = {  # from our tensor names to the names in the originals' spectral norm hook
    "parametrizations.weight.original": "weight_orig",
    "parametrizations.weight.0._u": "weight_u",
    "parametrizations.weight.0._v": "weight_v",
}


class OriginalWeightsError(UserError):
    """A state dict belongs to no original network, or the originals have no counterpart of our network."""


@dataclass(frozen=True)
class OriginalFormat:
    """How a network of the originals is stored in its file, and how this project builds it.

    families: Programs that have this network; the first program is the default.
    network: Our class.
    recognizes: Returns whether a state dict has the names and shapes of this network.
    settings: Returns the arguments of our class for a state dict, and for chosen values if the shapes leave a choice.
    names: Returns the original's names of the layers of our network.
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
    """Return a function that tests if a state dict has this tensor, with the last two sides `sides` unless None."""
    return lambda weights: key in weights and sides in (None, tuple(weights[key].shape[2:]))


def renamed(rules: Rules, network: nn.Module, layers: tuple[type[nn.Module], ...] = NAMED) -> Names:
    """Return the original's names of the layers of these types: our names, changed by each rule in turn."""
    names = {ours: ours for ours, layer in network.named_modules() if isinstance(layer, layers)}
    for pattern, theirs in rules.items():
        names = {ours: re.sub(pattern, theirs, name) for ours, name in names.items()}
    return names


def original_keys(network: nn.Module, names: Names) -> dict[str, str]:
    """Return a mapping from the tensor names of our network to the original's names.

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
    """Map each convolution to the norm behind it, which cancels the convolution's bias. All names are ours.

    A norm is the next layer in a Sequential, or the second norm of a SPADE block.
    """
    behind = {}
    for layer in names:
        container, _, last = layer.rpartition(".")
        norm = f"{container}.{int(last) + 1}" if last.isdigit() else f"{layer.removesuffix('conv1')}norm2.norm"
        if norm in names:
            behind[layer] = norm
    return behind
