"""Initial weights of a network: random, or copied from another network."""

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
    """Draw the weights of convolutions, linear layers and batch norms, in place, with torch's global random state.

    Batch norm gets weights from N(1, gain²) and biases of 0. Other biases keep torch's defaults, as in pix2pixHD.

    init: normal is N(0, gain²); pix2pixHD has gain 0.02. xavier is Glorot & Bengio 2010. kaiming is He et al. 2015 for
        ReLU, and ignores `gain`. orthogonal is Saxe et al. 2013.
    unchanged: Layers whose weights keep torch's defaults. zero_biases: Whether all biases start at 0.
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
    """Names of weights: `loaded` (copied), `left` (in the source, not copied), `new` (in the target, unchanged)."""

    loaded: list[str]
    left: list[str]
    new: list[str]


def transfer_weights(source: nn.Module, target: nn.Module) -> Transfer:
    """Copy weights from `source` to the weights of `target` with the same name and shape, in place.

    A global generator becomes the trunk of a local enhancer, as in pix2pixHD's step from 512p to 1024p. Discriminators
    with different numbers of scales are aligned at the lowest resolution. If only one generator has an encoder, skip
    the encoder. If `source` is an encoder, copy it into the encoder of `target`. Copy or compute spectral norm vectors.
    """
    source, target = _counterparts(source, target)
    source_state, target_state = source.state_dict(), target.state_dict()
    target_names = {plain: name for name in target_state if (plain := _plain(name))}
    loaded: dict[str, Tensor] = {}
    vectors: dict[str, Tensor] = {}
    left = []
    for name, value in source_state.items():
        plain = _plain(name)
        target_name = target_names.get(_plain_target(plain, source, target)) if plain else None
        if target_name is not None and target_state[target_name].shape == value.shape:
            layer, target_layer = (key.removesuffix(_ORIGINAL) for key in (name, target_name))
            loaded[target_name] = value
            if name != plain and target_name.endswith(_ORIGINAL):
                vectors |= {f"{target_layer}{key}": source_state[f"{layer}{key}"] for key in _VECTORS}
            elif name != plain:
                loaded[target_name] = cast(Tensor, source.get_submodule(layer).weight).detach()  # after spectral norm
        elif plain:
            left.append(plain)
    target.load_state_dict(target_state | loaded)
    settle_spectral_norm(target)
    target.load_state_dict(target.state_dict() | vectors)
    return Transfer(list(loaded), left, [plain for plain, name in target_names.items() if name not in loaded])


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
    """Return the name that a tensor has without spectral norm, or "" for spectral norm's vectors."""
    plain = name.replace(_ORIGINAL, ".weight")
    return "" if "parametrizations." in plain else plain


def _plain_target(name: str, source: nn.Module, target: nn.Module) -> str:
    match source, target:
        case GlobalGenerator(), LocalEnhancer():
            return name if name.startswith("head.") else f"trunk.{name}"
        case MultiscalePatchDiscriminator(), MultiscalePatchDiscriminator():
            _, number, rest = name.split(".", 2)
            # the last scale has the lowest resolution
            return f"scales.{int(number) + len(target.scales) - len(source.scales)}.{rest}"
        case _:
            return name
