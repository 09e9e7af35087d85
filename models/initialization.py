"""The weights that a network starts with: drawn, or copied from another network."""

from collections.abc import Collection
from dataclasses import dataclass
from typing import Literal, cast

from torch import Tensor, nn

from models.generator import EncodedGenerator
from models.global_generator import GlobalGenerator, LocalEnhancer
from models.instance_features import FeatureEncoder
from models.patch_discriminator import MultiscalePatchDiscriminator
from models.spectral_norm import settle_spectral_norm
from models.style_encoder import StyleEncoder

Init = Literal["normal", "xavier", "kaiming", "orthogonal"]

_ORIGINAL = ".parametrizations.weight.original"
_VECTORS = (".parametrizations.weight.0._u", ".parametrizations.weight.0._v")


def initialize(
    network: nn.Module, init: Init, gain: float, *, unchanged: Collection[nn.Module] = (), zero_biases: bool = False
) -> None:
    """Draw the weights of convolutions, linear layers and batch norms from torch's global generator, in place.

    Batch norm gets weights from N(1, gain²) and biases of 0. Other biases keep torch's values, as in pix2pixHD.

    init: N(0, gain²) with normal, as in pix2pixHD with gain 0.02; Glorot & Bengio 2010 with xavier; He et al. 2015 for
        ReLU, without gain, with kaiming; Saxe et al. 2013 with orthogonal.
    unchanged: Convolutions whose weights keep torch's values. zero_biases: Whether all biases start at 0.
    """
    for module in network.modules():
        if isinstance(module, nn.Conv2d | nn.ConvTranspose2d | nn.Linear):
            if zero_biases and module.bias is not None:
                nn.init.zeros_(module.bias)
            if module in unchanged:
                continue
            match init:
                case "normal":
                    nn.init.normal_(module.weight, 0.0, gain)
                case "xavier":
                    nn.init.xavier_normal_(module.weight, gain)
                case "kaiming":
                    nn.init.kaiming_normal_(module.weight, nonlinearity="relu")
                case "orthogonal":
                    nn.init.orthogonal_(module.weight, gain)
        elif isinstance(module, nn.BatchNorm2d) and module.affine:
            nn.init.normal_(module.weight, 1.0, gain)
            nn.init.zeros_(module.bias)


@dataclass(frozen=True)
class Transfer:
    """Names of weights. `loaded` were copied, `left` have no place in the target, `new` keep the target's values."""

    loaded: list[str]
    left: list[str]
    new: list[str]


def transfer_weights(source: nn.Module, target: nn.Module) -> Transfer:
    """Copy the weights of `source` that have a place of the same shape in `target`, in place.

    A global generator becomes the trunk of a local enhancer, as in pix2pixHD's step from 512p to 1024p. The scales of
    a discriminator keep their resolutions. A generator or an encoder can be transferred to or from a network of both.
    Spectral norm's vectors are copied with their weight, or computed if the source has none.
    """
    source, target = _counterparts(source, target)
    given, state = source.state_dict(), target.state_dict()
    places = {plain: name for name in state if (plain := _plain(name))}
    loaded: dict[str, Tensor] = {}
    vectors: dict[str, Tensor] = {}
    left = []
    for name, value in given.items():
        plain = _plain(name)
        place = places.get(_place(plain, source, target)) if plain else None
        if place is not None and state[place].shape == value.shape:
            layer, our_layer = (key.removesuffix(_ORIGINAL) for key in (name, place))
            loaded[place] = value
            if name != plain and place.endswith(_ORIGINAL):
                vectors |= {f"{our_layer}{key}": given[f"{layer}{key}"] for key in _VECTORS}
            elif name != plain:
                loaded[place] = cast(Tensor, source.get_submodule(layer).weight).detach()  # the divided weight
        elif plain:
            left.append(plain)
    target.load_state_dict(state | loaded)
    settle_spectral_norm(target)
    target.load_state_dict(target.state_dict() | vectors)
    return Transfer(list(loaded), left, [plain for plain, name in places.items() if name not in loaded])


def _counterparts(source: nn.Module, target: nn.Module) -> tuple[nn.Module, nn.Module]:
    match source, target:
        case EncodedGenerator(), EncodedGenerator():
            return source, target
        case FeatureEncoder() | StyleEncoder(), EncodedGenerator():
            return source, target.encoder
        case EncodedGenerator(), _:
            return source.generator, target
        case _, EncodedGenerator():
            return source, target.generator
        case _:
            return source, target


def _plain(name: str) -> str:
    """Return the name of a weight without spectral norm; "" for the state of spectral norm itself."""
    plain = name.replace(_ORIGINAL, ".weight")
    return "" if "parametrizations." in plain else plain


def _place(name: str, source: nn.Module, target: nn.Module) -> str:
    match source, target:
        case GlobalGenerator(), LocalEnhancer():
            return name if name.startswith("head.") else f"trunk.{name}"
        case MultiscalePatchDiscriminator(), MultiscalePatchDiscriminator():
            _, number, rest = name.split(".", 2)
            # scale 0 is the full resolution: with more scales, a resolution has a higher number
            return f"scales.{int(number) + len(target.scales) - len(source.scales)}.{rest}"
        case _:
            return name
