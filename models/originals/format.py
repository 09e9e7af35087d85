"""The file of an original's network: which network of ours it holds, and the names of its tensors."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, get_args

from torch import Tensor, nn

from utils.errors import UserError

StateDict = dict[str, Tensor]
Names = dict[str, str]  # of layers that have tensors or are norms: the original's by ours
FileRole = Literal["generator", "encoder", "discriminator", "projection"]  # of the network that a file holds
Family = Literal["pix2pixHD", "pix2pix", "CycleGAN", "CUT", "SPADE", "OASIS"]
FAMILIES: tuple[Family, ...] = get_args(Family)

# of a layer with spectral norm: the names of the originals' hook, by ours
SPECTRAL_NORM = {
    "parametrizations.weight.original": "weight_orig",
    "parametrizations.weight.0._u": "weight_u",
    "parametrizations.weight.0._v": "weight_v",
}


class OriginalWeightsError(UserError):
    """A state dict is not of an original, or a network has no counterpart there."""


@dataclass(frozen=True)
class OriginalFormat:
    """A network of the originals, as its file holds it and as ours.

    families: the programs that have it; the first is the default.
    network: our class.
    recognizes: whether a state dict is of this network, by its names and shapes.
    settings: the arguments of our class that give a network of these shapes; and of those that the shapes leave open,
        the values that were chosen.
    names: the names of the layers of a network of ours.
    faults: settings with which the original has no network, and whether one of ours has them.
    is_of: which networks of our class are this one, where there are several.
    constants: tensors that its file holds beside those of our network, by its names.
    left_open: Settings of a generator that the shapes leave open.
    """

    families: tuple[Family, ...]
    role: FileRole
    network: type[nn.Module]
    recognizes: Callable[[StateDict], bool]
    settings: Callable[[StateDict, Mapping[str, int]], dict[str, Any]]
    names: Callable[[Any], Names]
    faults: Callable[[Any], Mapping[str, bool]] = lambda _: {}
    is_of: Callable[[Any], bool] = lambda _: True
    constants: Callable[[Any, Names], StateDict] = lambda *_: {}
    left_open: tuple[str, ...] = ()

    def fault(self, network: nn.Module) -> str:
        """Return the first of the faults that a network of ours has; "" if it has none."""
        return next((fault for fault, is_there in self.faults(network).items() if is_there), "")


def has(key: str, sides: tuple[int, int] | None = None) -> Callable[[StateDict], bool]:
    """Return the function that returns whether a state dict has a tensor, with these last two sides if given."""
    return lambda weights: key in weights and sides in (None, tuple(weights[key].shape[2:]))


def original_keys(network: nn.Module, names: Names) -> dict[str, str]:
    """Return the original's names of the tensors of a network, by ours.

    Raises:
        KeyError: a tensor is in none of the layers.
    """
    keys = {}
    for key in network.state_dict():
        layer = key.partition(".parametrizations.")[0] if ".parametrizations." in key else key.rpartition(".")[0]
        tensor = key.removeprefix(f"{layer}.")
        keys[key] = f"{names[layer]}.{SPECTRAL_NORM.get(tensor, tensor)}"
    return keys


def norms_behind(names: Names) -> Names:
    """Return our names of the norms by those of the convolutions before them, whose biases they cancel.

    A norm is the next layer in a Sequential, or the second of a SPADE block behind its first convolution.
    """
    behind = {}
    for layer in names:
        container, _, last = layer.rpartition(".")
        norm = f"{container}.{int(last) + 1}" if last.isdigit() else f"{layer.removesuffix('conv1')}norm2.norm"
        if norm in names:
            behind[layer] = norm
    return behind
