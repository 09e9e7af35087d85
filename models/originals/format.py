"""The file of an original's network: which network of ours it holds, and the names of its tensors."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from torch import Tensor, nn

from utils.errors import UserError

StateDict = dict[str, Tensor]
Role = Literal["generator", "encoder", "discriminator"]
Family = Literal["pix2pixHD", "pix2pix", "SPADE", "OASIS"]

# of a layer with spectral norm: the names of the originals' hook, by ours
SPECTRAL_NORM = {
    "parametrizations.weight.original": "weight_orig",
    "parametrizations.weight.0._u": "weight_u",
    "parametrizations.weight.0._v": "weight_v",
}


class OriginalWeightsError(UserError):
    """A state dict is not of an original, or a network has no counterpart there."""


@dataclass(frozen=True)
class LayerNames:
    """The names of a layer in our network and in the original.

    norm: our name of the norm behind it, which cancels a bias that only the original's layer has.
    """

    ours: str
    original: str
    norm: str | None = None


@dataclass(frozen=True)
class OriginalFormat:
    """A network of the originals, as its file holds it and as ours.

    families: the programs that have it; the first is the default.
    network: our class.
    recognizes: whether a state dict is of this network, by its names and shapes.
    settings: the arguments of our class that give a network of these shapes; and of those that the shapes leave open,
        the values that were chosen.
    layers: the layers of a network of ours that have tensors.
    fault: why the original has no network with the settings of one of ours; "" if it has.
    is_of: which networks of our class are this one, where there are several.
    """

    families: tuple[Family, ...]
    role: Role
    network: type[nn.Module]
    recognizes: Callable[[StateDict], bool]
    settings: Callable[[StateDict, Mapping[str, int]], dict[str, Any]]
    layers: Callable[[Any], Iterable[LayerNames]]
    fault: Callable[[Any], str]
    is_of: Callable[[Any], bool] = lambda _: True


def original_keys(network: nn.Module, layers: Iterable[LayerNames]) -> dict[str, str]:
    """Return the original's names of the tensors of a network, by ours.

    Raises:
        KeyError: a tensor is in none of the layers.
    """
    originals = {names.ours: names.original for names in layers}
    keys = {}
    for key in network.state_dict():
        layer = key.partition(".parametrizations.")[0] if ".parametrizations." in key else key.rpartition(".")[0]
        tensor = key.removeprefix(f"{layer}.")
        keys[key] = f"{originals[layer]}.{SPECTRAL_NORM.get(tensor, tensor)}"
    return keys


def first_fault(faults: Mapping[str, bool]) -> str:
    """Return the first fault that is there; "" if none is."""
    return next((fault for fault, is_there in faults.items() if is_there), "")
