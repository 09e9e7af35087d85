"""Starting a network from the weights of another."""

from dataclasses import dataclass
from typing import cast

from torch import Tensor, nn

from models.feature_encoder import FeatureConditionedGenerator, FeatureEncoder
from models.global_generator import GlobalGenerator
from models.local_enhancer import LocalEnhancer
from models.patch_discriminator import MultiscalePatchDiscriminator


@dataclass(frozen=True)
class Transfer:
    """What became of the weights, by name.

    loaded: taken over, in the names of the network that was started.
    left: those of the other network that have no place in it, in its names.
    new: those of the started network that keep their initial values.
    """

    loaded: list[str]
    left: list[str]
    new: list[str]


def transfer_weights(source: nn.Module, target: nn.Module) -> Transfer:
    """Copy the weights of `source` that have a place of the same shape in `target`, in place.

    A global generator becomes the trunk of a local enhancer, as in pix2pixHD's step from 512p to 1024p. A discriminator
    with fewer scales judges the same resolutions as before: the scales that are added see higher ones. Of a generator
    and its feature encoder, what the other side has is meant.
    """
    source, target = _counterparts(source, target)
    state = target.state_dict()
    places = {plain: name for name in state if (plain := _plain(name))}
    loaded: dict[str, Tensor] = {}
    left = []
    for plain, value in _effective_weights(source).items():
        place = places.get(_place(plain, source, target))
        if place is not None and state[place].shape == value.shape:
            loaded[place] = value
        else:
            left.append(plain)
    target.load_state_dict(state | loaded)
    return Transfer(list(loaded), left, [plain for plain, name in places.items() if name not in loaded])


def _counterparts(source: nn.Module, target: nn.Module) -> tuple[nn.Module, nn.Module]:
    match source, target:
        case FeatureConditionedGenerator(), FeatureConditionedGenerator():
            return source, target
        case FeatureEncoder(), FeatureConditionedGenerator():
            return source, target.encoder
        case FeatureConditionedGenerator(), _:
            return source.generator, target
        case _, FeatureConditionedGenerator():
            return source, target.generator
        case _:
            return source, target


def _effective_weights(network: nn.Module) -> dict[str, Tensor]:
    """The weights that a network computes with, by plain names: with spectral normalisation, the divided ones."""
    weights = {}
    for name, value in network.state_dict().items():
        if plain := _plain(name):
            is_divided = plain != name
            module = network.get_submodule(plain.rpartition(".")[0])
            weights[plain] = cast(Tensor, module.weight).detach() if is_divided else value
    return weights


def _plain(name: str) -> str:
    """The name of a weight without spectral normalisation, of whose own state nothing is taken ("")."""
    if "._u" in name or "._v" in name:
        return ""
    return name.replace("parametrizations.weight.original", "weight")


def _place(name: str, source: nn.Module, target: nn.Module) -> str:
    match source, target:
        case GlobalGenerator(), LocalEnhancer():
            return name if name.startswith("head.") else f"trunk.{name}"
        case MultiscalePatchDiscriminator(), MultiscalePatchDiscriminator():
            _, number, rest = name.split(".", 2)
            # scale 0 is the full resolution, so what was the full resolution of less is a later one of more
            return f"scales.{int(number) + len(target.scales) - len(source.scales)}.{rest}"
        case _:
            return name
