"""The names of the same layer in a network of pix2pixHD or pix2pix and in ours."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Literal, cast

from torch import nn

from models.feature_encoder import FeatureEncoder
from models.global_generator import GlobalGenerator, GlobalTrunk
from models.local_enhancer import EnhancerLevel, LocalEnhancer
from models.patch_discriminator import MultiscalePatchDiscriminator, PatchDiscriminator, PixelDiscriminator
from models.unet_generator import UnetGenerator
from utils.errors import UserError

Scheme = Literal[
    "global",
    "local",
    "encoder",
    "unet",
    "multiscale",
    "multiscale_without_features",
    "patch",
    "pixel",
    "spade",
    "spade_multiscale",
    "oasis",
    "oasis_discriminator",
    "spade_encoder",
]
"""A way in which an original names its layers."""


class OriginalWeightsError(UserError):
    """A state dict is not of pix2pixHD or pix2pix, or a network has no counterpart there."""


class NoSuchNetworkError(OriginalWeightsError):
    """The original has no network with a setting, `fault`."""

    def __init__(self, fault: str) -> None:
        super().__init__(f"the original has no such network: {fault}")
        self.fault = fault


@dataclass(frozen=True)
class Layer:
    """The names of a convolution, and of the norm after it if there is one, in our network and in the original."""

    ours: str
    original: str
    our_norm: str | None = None
    original_norm: str | None = None


def layers_of(network: nn.Module, scheme: Scheme) -> Iterator[Layer]:
    """Yield the convolutions of a network, in the order of its forward pass.

    Raises:
        OriginalWeightsError: the originals have no such network.
    """
    match network:
        case GlobalGenerator():
            yield from _trunk_layers(network, "", "model.")
            last = 4 + 6 * len(network.downs) + len(network.blocks) + 1
            yield Layer("head.1", f"model.{last}")
        case FeatureEncoder():
            for layer in layers_of(network.network, "global"):
                our_norm = layer.our_norm and f"network.{layer.our_norm}"
                yield replace(layer, ours=f"network.{layer.ours}", our_norm=our_norm)
        case LocalEnhancer():
            yield from _trunk_layers(network.trunk, "trunk.", "model.")
            n_blocks = len(cast(EnhancerLevel, network.enhancers[0]).blocks)
            for number in range(len(network.enhancers)):
                yield from _enhancer_layers(f"enhancers.{number}", f"model{number + 1}", n_blocks)
            yield Layer("head.1", f"model{len(network.enhancers)}_2.{n_blocks + 4}")
        case UnetGenerator():
            yield from _unet_layers(n_levels=len(network.downs))
        case MultiscalePatchDiscriminator():
            n_scales = len(network.scales)
            for number, scale in enumerate(network.scales):
                original = n_scales - 1 - number  # the original counts from the lowest resolution
                n_layers = len(cast(PatchDiscriminator, scale).layers)
                yield from _patch_layers(f"scales.{number}.", n_layers, scheme, original)
        case PixelDiscriminator():
            yield Layer("layers.0.0", "net.0")
            yield _normed("layers.1.0", "net.2")
            yield Layer("head", "net.5")
        case _:
            raise OriginalWeightsError(f"the original has no {type(network).__name__}")


def _trunk_layers(trunk: GlobalTrunk, ours: str, original: str) -> Iterator[Layer]:
    n_downs, n_blocks = len(trunk.downs), len(trunk.blocks)
    yield _normed(f"{ours}stem.1", f"{original}1")
    for i in range(n_downs):
        yield _normed(f"{ours}downs.{i}.0", f"{original}{4 + 3 * i}")
    first_block = 4 + 3 * n_downs
    for i, block in enumerate(trunk.blocks):
        has_dropout = any(isinstance(part, nn.Dropout) for part in block.modules())
        yield from _block_layers(f"{ours}blocks.{i}", f"{original}{first_block + i}", has_dropout=has_dropout)
    for i in range(n_downs):
        yield _normed(f"{ours}ups.{i}.0", f"{original}{first_block + n_blocks + 3 * i}")


def _block_layers(ours: str, original: str, *, has_dropout: bool) -> Iterator[Layer]:
    for number in (1, 6 if has_dropout else 5):
        yield _normed(f"{ours}.body.{number}", f"{original}.conv_block.{number}")


def _enhancer_layers(ours: str, original: str, n_blocks: int) -> Iterator[Layer]:
    yield _normed(f"{ours}.stem.1", f"{original}_1.1")
    yield _normed(f"{ours}.down.0", f"{original}_1.4")
    for i in range(n_blocks):
        yield from _block_layers(f"{ours}.blocks.{i}", f"{original}_2.{i}", has_dropout=False)
    yield _normed(f"{ours}.up.0", f"{original}_2.{n_blocks}")


def _unet_layers(n_levels: int) -> Iterator[Layer]:
    prefix = [unet_prefix(level) for level in range(n_levels)]
    innermost = n_levels - 1
    yield Layer("downs.0", f"{prefix[0]}0")
    for level in range(1, innermost):
        yield _normed(f"downs.{level}.1", f"{prefix[level]}1")
    yield Layer(f"downs.{innermost}.1", f"{prefix[innermost]}1")
    for number, level in enumerate(range(innermost, 0, -1)):
        yield _normed(f"ups.{number}.1", f"{prefix[level]}{3 if level == innermost else 5}")
    yield Layer("head.1", f"{prefix[0]}3")


def unet_prefix(level: int) -> str:
    """Return the prefix of the original U-Net's names at `level`; level 0, the outermost, contains the others."""
    return "model.model." + ("1.model." if level else "") + "3.model." * (level - 1)


def _patch_layers(ours: str, n_layers: int, scheme: Scheme, scale: int) -> Iterator[Layer]:
    for k in range(n_layers + 1):
        our_name = f"{ours}head" if k == n_layers else f"{ours}layers.{k}.0"
        if scheme == "multiscale":
            name = f"scale{scale}_layer{k}.0"
        else:
            name = f"{'model' if scheme == 'patch' else f'layer{scale}'}.{3 * k - 1 if k else 0}"
        yield Layer(our_name, name) if k in (0, n_layers) else _normed(our_name, name)


def _normed(ours: str, original: str) -> Layer:
    return Layer(ours, original, next_in_sequence(ours), next_in_sequence(original))


def next_in_sequence(name: str) -> str:
    """Return the name of the module after `name` in the same Sequential."""
    container, number = name.rsplit(".", 1)
    return f"{container}.{int(number) + 1}"
