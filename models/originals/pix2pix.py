"""The networks of pix2pixHD and pix2pix."""

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any, cast

from torch import nn
from torch.nn.utils.parametrize import is_parametrized

from models.blocks import Norm
from models.feature_encoder import FeatureEncoder
from models.global_generator import GlobalGenerator, GlobalTrunk
from models.layers import UpsampledConv2d
from models.local_enhancer import EnhancerLevel, LocalEnhancer
from models.originals.format import LayerNames, OriginalFormat, StateDict
from models.patch_discriminator import MultiscalePatchDiscriminator, PatchDiscriminator, PixelDiscriminator
from models.spectral_norm import spectral_norms
from models.unet_generator import UnetGenerator


def _normed(ours: str, original: str) -> Iterator[LayerNames]:
    """Yield a convolution, and the norm that follows it in its Sequential."""
    yield LayerNames(ours, original, norm=_next_in_sequence(ours))
    yield LayerNames(_next_in_sequence(ours), _next_in_sequence(original))


def _next_in_sequence(name: str) -> str:
    container, _, number = name.rpartition(".")
    return f"{container}.{int(number) + 1}"


def _global_layers(network: GlobalGenerator) -> Iterator[LayerNames]:
    yield from _trunk_layers(network, "")
    yield LayerNames("head.1", f"model.{4 + 6 * len(network.downs) + len(network.blocks) + 1}")


def _trunk_layers(trunk: GlobalTrunk, ours: str) -> Iterator[LayerNames]:
    n_downs, n_blocks = len(trunk.downs), len(trunk.blocks)
    yield from _normed(f"{ours}stem.1", "model.1")
    for i in range(n_downs):
        yield from _normed(f"{ours}downs.{i}.0", f"model.{4 + 3 * i}")
    first_block = 4 + 3 * n_downs
    for i, block in enumerate(trunk.blocks):
        yield from _block_layers(block, f"{ours}blocks.{i}", f"model.{first_block + i}")
    for i in range(n_downs):
        yield from _normed(f"{ours}ups.{i}.0", f"model.{first_block + n_blocks + 3 * i}")


def _block_layers(block: nn.Module, ours: str, original: str) -> Iterator[LayerNames]:
    for number in (1, 6 if _has_dropout(block) else 5):
        yield from _normed(f"{ours}.body.{number}", f"{original}.conv_block.{number}")


def _has_dropout(network: nn.Module) -> bool:
    return any(isinstance(module, nn.Dropout) for module in network.modules())


def _encoder_layers(encoder: FeatureEncoder) -> Iterator[LayerNames]:
    for names in _global_layers(encoder.network):
        yield replace(names, ours=f"network.{names.ours}", norm=names.norm and f"network.{names.norm}")


def _local_layers(network: LocalEnhancer) -> Iterator[LayerNames]:
    yield from _trunk_layers(network.trunk, "trunk.")
    n_blocks = 0
    for number, level in enumerate(network.enhancers, 1):
        ours, blocks = f"enhancers.{number - 1}", cast(EnhancerLevel, level).blocks
        n_blocks = len(blocks)
        yield from _normed(f"{ours}.stem.1", f"model{number}_1.1")
        yield from _normed(f"{ours}.down.0", f"model{number}_1.4")
        for i, block in enumerate(blocks):
            yield from _block_layers(block, f"{ours}.blocks.{i}", f"model{number}_2.{i}")
        yield from _normed(f"{ours}.up.0", f"model{number}_2.{n_blocks}")
    yield LayerNames("head.1", f"model{len(network.enhancers)}_2.{n_blocks + 4}")


def _unet_layers(network: UnetGenerator) -> Iterator[LayerNames]:
    innermost = len(network.downs) - 1
    yield LayerNames("downs.0", f"{_unet_prefix(0)}0")
    for level in range(1, innermost):
        yield from _normed(f"downs.{level}.1", f"{_unet_prefix(level)}1")
    yield LayerNames(f"downs.{innermost}.1", f"{_unet_prefix(innermost)}1")
    for number, level in enumerate(range(innermost, 0, -1)):
        yield from _normed(f"ups.{number}.1", f"{_unet_prefix(level)}{3 if level == innermost else 5}")
    yield LayerNames("head.1", f"{_unet_prefix(0)}3")


def _unet_prefix(level: int) -> str:
    """Return the prefix of the original U-Net's names at `level`; level 0, the outermost, contains the others."""
    return "model.model." + ("1.model." if level else "") + "3.model." * (level - 1)


def _patch_layers(
    name: Callable[[int, int], str],
) -> Callable[[MultiscalePatchDiscriminator], Iterator[LayerNames]]:
    """Return the function that yields a PatchGAN's layers; `name` returns that of a scale's convolution."""

    def layers(network: MultiscalePatchDiscriminator) -> Iterator[LayerNames]:
        for number, scale in enumerate(network.scales):
            original = len(network.scales) - 1 - number  # the original counts from the lowest resolution
            n_layers = len(cast(PatchDiscriminator, scale).layers)
            yield LayerNames(f"scales.{number}.layers.0.0", name(original, 0))
            for k in range(1, n_layers):
                yield from _normed(f"scales.{number}.layers.{k}.0", name(original, k))
            yield LayerNames(f"scales.{number}.head", name(original, n_layers))

    return layers


def _place(k: int) -> int:
    """Return the number of the k-th convolution of a PatchGAN in one Sequential."""
    return 3 * k - 1 if k else 0


def _pixel_layers(_: PixelDiscriminator) -> Iterator[LayerNames]:
    yield LayerNames("layers.0.0", "net.0")
    yield from _normed("layers.1.0", "net.2")
    yield LayerNames("head", "net.5")


def _norm_behind(weights: StateDict, convolution: str) -> Norm:
    return "batch" if f"{_next_in_sequence(convolution)}.weight" in weights else "instance"


def _count(weights: StateDict, pattern: str) -> int:
    """Return how many different values the pattern's group has in the names that match."""
    return len({match[1] for key in weights if (match := re.fullmatch(pattern, key))})


def _convolutions(weights: StateDict, container: str) -> list[str]:
    """Return the names of the weights of a Sequential's own convolutions, in their order."""
    found = {int(match[1]): key for key in weights if (match := re.fullmatch(rf"{container}\.(\d+)\.weight", key))}
    return [key for _, key in sorted(found.items()) if weights[key].dim() == 4]


def _trunk_settings(weights: StateDict) -> dict[str, Any]:
    shapes = [weights[key].shape for key in _convolutions(weights, "model")]
    return {
        "in_channels": weights["model.1.weight"].shape[1],
        "out_channels": shapes[-1][0],
        "base_channels": weights["model.1.weight"].shape[0],
        "n_downsamplings": sum(shape[2:] == (3, 3) for shape in shapes) // 2,  # the other half upsample
        "n_blocks": _count(weights, r"model\.(\d+)\.conv_block\..*"),
        "norm": _norm_behind(weights, "model.1"),
    }


def _global_settings(weights: StateDict, _: Mapping[str, int]) -> dict[str, Any]:
    has_dropout = any(key.endswith("conv_block.6.weight") and weights[key].dim() == 4 for key in weights)
    return {**_trunk_settings(weights), "dropout": has_dropout}


def _encoder_settings(weights: StateDict, _: Mapping[str, int]) -> dict[str, Any]:
    settings = _trunk_settings(weights)
    settings["n_features"] = settings.pop("out_channels")
    del settings["n_blocks"]
    return settings


def _local_settings(weights: StateDict, _: Mapping[str, int]) -> dict[str, Any]:
    n_enhancers, settings = _count(weights, r"model(\d+)_1\..*"), _trunk_settings(weights)
    return {
        **settings,
        "out_channels": weights[_convolutions(weights, f"model{n_enhancers}_2")[-1]].shape[0],
        "base_channels": settings["base_channels"] // 2**n_enhancers,
        "n_enhancers": n_enhancers,
        "n_enhancer_blocks": _count(weights, r"model1_2\.(\d+)\.conv_block\..*"),
    }


def _unet_settings(weights: StateDict, _: Mapping[str, int]) -> dict[str, Any]:
    n_levels = 1
    while f"{_unet_prefix(n_levels)}1.weight" in weights:
        n_levels += 1
    return {
        "in_channels": weights["model.model.0.weight"].shape[1],
        "out_channels": weights["model.model.3.weight"].shape[1],
        "base_channels": weights["model.model.0.weight"].shape[0],
        "n_downsamplings": n_levels,
        "norm": _norm_behind(weights, f"{_unet_prefix(1)}1"),
        "dropout": "dropout" not in UnetGenerator.without_effect(n_downsamplings=n_levels),
    }


def _discriminator_settings(weights: StateDict, first: str, second: str) -> dict[str, Any]:
    base_channels, in_channels = weights[f"{first}.weight"].shape[:2]
    return {
        "source_channels": in_channels - 3,
        "base_channels": base_channels,
        "norm": _norm_behind(weights, second),
    }


def _multiscale_settings(weights: StateDict, _: Mapping[str, int]) -> dict[str, Any]:
    return {
        **_discriminator_settings(weights, "scale0_layer0.0", "scale0_layer1.0"),
        "n_layers": _count(weights, r"scale0_layer(\d+)\..*") - 2,
        "n_scales": _count(weights, r"scale(\d+)_.*"),
    }


def _multiscale_settings_without_features(weights: StateDict, _: Mapping[str, int]) -> dict[str, Any]:
    return {
        **_discriminator_settings(weights, "layer0.0", "layer0.2"),
        "n_layers": len(_convolutions(weights, "layer0")) - 2,
        "n_scales": _count(weights, r"layer(\d+)\..*"),
    }


def _patch_settings(weights: StateDict, _: Mapping[str, int]) -> dict[str, Any]:
    settings = _discriminator_settings(weights, "model.0", "model.2")
    n_layers = len(_convolutions(weights, "model")) - 2
    return {
        **settings,
        "n_layers": n_layers,
        "n_scales": 1,
        "padding": 1,
        "max_channels": 8 * settings["base_channels"],
    }


def _pixel_settings(weights: StateDict, _: Mapping[str, int]) -> dict[str, Any]:
    return _discriminator_settings(weights, "net.0", "net.2")


def _has(key: str, sides: tuple[int, int] | None = None) -> Callable[[StateDict], bool]:
    """Return the function that returns whether a state dict has a tensor, with these last two sides if given."""
    return lambda weights: key in weights and sides in (None, tuple(weights[key].shape[2:]))


def _has_trunk(*, has_blocks: bool) -> Callable[[StateDict], bool]:
    has_stem = _has("model.1.weight", (7, 7))
    return lambda weights: has_stem(weights) and any("conv_block" in key for key in weights) == has_blocks


def _fault(network: nn.Module) -> str:
    for module in network.modules():
        if is_parametrized(module):
            return "spectral_norm"
        if isinstance(module, nn.Upsample | UpsampledConv2d):
            return "upsample other than transposed"
        if isinstance(module, nn.Conv2d) and module.padding_mode != "zeros":
            return f"padding={module.padding_mode}"
    return ""


def patch_fault(network: MultiscalePatchDiscriminator) -> str:
    """Return why neither pix2pixHD nor SPADE has a PatchGAN."""
    head = cast(nn.Conv2d, network.scales[0].get_submodule("head"))
    if is_parametrized(head):
        return "spectral_norm all"
    return "" if head.padding[0] == 2 else f"padding {head.padding[0]}"


def _is_of_pix2pix(network: MultiscalePatchDiscriminator) -> bool:
    is_normed = bool(spectral_norms(network))
    return not is_normed and len(network.scales) == 1 and patch_fault(network) == "padding 1"


FORMATS: dict[str, OriginalFormat] = {
    "multiscale": OriginalFormat(
        families=("pix2pixHD",),
        role="discriminator",
        network=MultiscalePatchDiscriminator,
        recognizes=_has("scale0_layer0.0.weight"),
        settings=_multiscale_settings,
        layers=_patch_layers(lambda scale, k: f"scale{scale}_layer{k}.0"),
        fault=patch_fault,
        is_of=lambda network: not spectral_norms(network) and not _is_of_pix2pix(network),
    ),
    "multiscale_without_features": OriginalFormat(
        families=("pix2pixHD",),
        role="discriminator",
        network=MultiscalePatchDiscriminator,
        recognizes=_has("layer0.0.weight"),
        settings=_multiscale_settings_without_features,
        layers=_patch_layers(lambda scale, k: f"layer{scale}.{_place(k)}"),
        fault=patch_fault,
        is_of=lambda _: False,  # it is written with features
    ),
    "unet": OriginalFormat(
        families=("pix2pix",),
        role="generator",
        network=UnetGenerator,
        recognizes=_has("model.model.0.weight"),
        settings=_unet_settings,
        layers=_unet_layers,
        fault=_fault,
    ),
    "pixel": OriginalFormat(
        families=("pix2pix",),
        role="discriminator",
        network=PixelDiscriminator,
        recognizes=_has("net.0.weight"),
        settings=_pixel_settings,
        layers=_pixel_layers,
        fault=_fault,
    ),
    "local": OriginalFormat(
        families=("pix2pixHD",),
        role="generator",
        network=LocalEnhancer,
        recognizes=_has("model1_1.1.weight"),
        settings=_local_settings,
        layers=_local_layers,
        fault=_fault,
    ),
    "global": OriginalFormat(
        families=("pix2pixHD", "pix2pix"),
        role="generator",
        network=GlobalGenerator,
        recognizes=_has_trunk(has_blocks=True),
        settings=_global_settings,
        layers=_global_layers,
        fault=_fault,
    ),
    "encoder": OriginalFormat(
        families=("pix2pixHD",),
        role="encoder",
        network=FeatureEncoder,
        recognizes=_has_trunk(has_blocks=False),
        settings=_encoder_settings,
        layers=_encoder_layers,
        fault=_fault,
    ),
    "patch": OriginalFormat(
        families=("pix2pix",),
        role="discriminator",
        network=MultiscalePatchDiscriminator,
        recognizes=_has("model.0.weight", (4, 4)),
        settings=_patch_settings,
        layers=_patch_layers(lambda _, k: f"model.{_place(k)}"),
        fault=lambda _: "",
        is_of=_is_of_pix2pix,
    ),
}
