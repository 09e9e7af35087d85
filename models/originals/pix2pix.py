"""The networks of pix2pixHD, and of pix2pix, CycleGAN and CUT, which share their code."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import pairwise
from typing import Any, cast

import torch
from torch import nn

from models.blocks import Norm, ResidualBlock
from models.global_generator import GlobalGenerator, LocalEnhancer
from models.instance_features import FeatureEncoder
from models.layers import AntialiasedDownsampling
from models.originals.format import Family, Names, OriginalFormat, StateDict, has
from models.patch_discriminator import MultiscalePatchDiscriminator, PixelDiscriminator
from models.patch_projection import PatchProjection
from models.unet_generator import UnetGenerator

_OF_PIX2PIX: tuple[Family, ...] = ("pix2pix", "CycleGAN")
_TRUNK = ("stem", "downs", "blocks", "ups", "head")
_NAMED = (nn.Conv2d, nn.ConvTranspose2d, nn.Linear, nn.InstanceNorm2d, nn.BatchNorm2d)
_FILTERS: dict[type[nn.Module], tuple[int, ...]] = {AntialiasedDownsampling: (1, 2, 1), nn.Upsample: (1, 3, 3, 1)}


def _counted(network: nn.Module, parts: Sequence[str]) -> dict[str, nn.Module]:
    """Return the layers of our parts in their order, by name, as the original counts them in one Sequential."""
    layers: dict[str, nn.Module] = {}
    for part in parts:
        layer = network.get_submodule(part)
        if isinstance(layer, nn.Sequential | nn.ModuleList):
            layers |= _counted(network, [f"{part}.{child}" for child, _ in layer.named_children()])
        else:
            layers[part] = layer
    return layers


def _sequential(theirs: str, parts: Sequence[str], network: nn.Module) -> Names:
    """Return the names of layers that are one Sequential, `theirs`, in the original."""
    names: Names = {}
    for number, (ours, layer) in enumerate(_counted(network, parts).items()):
        if isinstance(layer, ResidualBlock):
            names |= _sequential(f"{theirs}.{number}.conv_block", [f"{ours}.body"], network)
        elif isinstance(layer, _NAMED):
            names[ours] = f"{theirs}.{number}"
    return names


def _local_names(network: LocalEnhancer) -> Names:
    names = _sequential("model", [f"trunk.{part}" for part in _TRUNK[:-1]], network)
    for number in range(len(network.enhancers)):
        ours, head = f"enhancers.{number}", ["head"] if number == len(network.enhancers) - 1 else []
        names |= _sequential(f"model{number + 1}_1", [f"{ours}.stem", f"{ours}.down"], network)
        names |= _sequential(f"model{number + 1}_2", [f"{ours}.blocks", f"{ours}.up", *head], network)
    return names


def _unet_names(network: UnetGenerator) -> Names:
    innermost = len(network.downs) - 1
    names = {"downs.0": f"{_unet_prefix(0)}0", "head.1": f"{_unet_prefix(0)}3"}
    for level in range(1, innermost + 1):
        prefix, up = _unet_prefix(level), 2 if level == innermost else 4
        names |= {f"downs.{level}.{k}": f"{prefix}{k}" for k in ((1,) if level == innermost else (1, 2))}
        names |= {f"ups.{innermost - level}.{k}": f"{prefix}{up + k}" for k in (1, 2)}
    return names


def _unet_prefix(level: int) -> str:
    """Return the prefix of the original U-Net's names at `level`; level 0, the outermost, contains the others."""
    return "model.model." + ("1.model." if level else "") + "3.model." * (level - 1)


def _patch_names(theirs: str, network: MultiscalePatchDiscriminator) -> Names:
    """Return the names of PatchGANs; theirs: Name of the Sequential of each {scale}, or of each {layer} of a scale."""
    names: Names = {}
    for number, scale in enumerate(network.scales):
        of_scale = len(network.scales) - 1 - number  # the original counts from the lowest resolution
        parts = [*(f"scales.{number}.layers.{k}" for k in range(n_layers(scale))), f"scales.{number}.head"]
        for layer, group in enumerate([part] for part in parts) if "{layer}" in theirs else [(0, parts)]:
            names |= _sequential(theirs.format(scale=of_scale, layer=layer), group, network)
    return names


def n_layers(scale: nn.Module) -> int:
    """Return the number of layers of a scale before its head."""
    return len(cast(nn.ModuleList, scale.layers))


def _filters(parts: Sequence[str], network: nn.Module) -> StateDict:
    """Return the filters of CUT's antialiased layers, which its files hold as buffers."""
    found, channels = {}, 0
    layers = [*_counted(network, parts).values()]
    for number, (layer, after) in enumerate(pairwise(layers)):
        if isinstance(layer, nn.Conv2d):
            channels = layer.out_channels
        if type(layer) in _FILTERS:
            n_filters = cast(nn.Conv2d, after).in_channels if isinstance(layer, nn.Upsample) else channels
            row = torch.tensor(_FILTERS[type(layer)], dtype=torch.float32)
            found[f"model.{number}.filt"] = (row[:, None] * row / 16).repeat(n_filters, 1, 1, 1)
    return found


def count(weights: StateDict, pattern: str) -> int:
    """Return how many different values the pattern's group has in the names that match."""
    return len({match[1] for key in weights if (match := re.fullmatch(pattern, key))})


def _convolutions(weights: StateDict, container: str) -> list[str]:
    """Return the names of the weights of a Sequential's own convolutions, in their order."""
    found = {int(match[1]): key for key in weights if (match := re.fullmatch(rf"{container}\.(\d+)\.weight", key))}
    return [key for _, key in sorted(found.items()) if weights[key].dim() == 4]


def _norm_behind(weights: StateDict, convolution: str) -> Norm:
    container, _, number = convolution.rpartition(".")
    return "batch" if f"{container}.{int(number) + 1}.weight" in weights else "instance"


def _trunk_settings(weights: StateDict) -> dict[str, Any]:
    shapes = [weights[key].shape for key in _convolutions(weights, "model")]
    return {
        "in_channels": weights["model.1.weight"].shape[1],
        "out_channels": shapes[-1][0],
        "base_channels": weights["model.1.weight"].shape[0],
        "n_downsamplings": sum(shape[2:] == (3, 3) for shape in shapes) // 2,  # the other half upsample
        "n_blocks": count(weights, r"model\.(\d+)\.conv_block\..*"),
        "norm": _norm_behind(weights, "model.1"),
    }


def _global_settings(weights: StateDict, chosen: Mapping[str, int]) -> dict[str, Any]:
    """Return the settings of a global generator; chosen: biased_downs keeps biases that instance norm cancels."""
    settings, (downs, ups) = _trunk_settings(weights), _antialiased(weights)
    is_biased = bool(chosen.get("biased_downs")) or downs or ups
    return {
        **settings,
        "dropout": any(key.endswith("conv_block.6.weight") and weights[key].dim() == 4 for key in weights),
        "biased_downs": is_biased and settings["norm"] == "instance",
        "downsample": "antialiased" if downs else "strided",
        "upsample": "antialiased" if ups else "transposed",
    }


def _antialiased(weights: StateDict) -> tuple[bool, bool]:
    """Return whether CUT's antialiased layers are before and after the residual blocks.

    Two antialiased downsamplings have the layer numbers 4 to 11; two strided ones have 4 to 9.
    """
    blocks = [int(match[1]) for key in weights if (match := re.match(r"model\.(\d+)\.conv_block", key))] or [0]
    return min(blocks) == 12, has(f"model.{max(blocks) + 2}.weight", (3, 3))(weights)


def _encoder_settings(weights: StateDict, _: Mapping[str, int]) -> dict[str, Any]:
    settings = _trunk_settings(weights)
    settings["n_features"] = settings.pop("out_channels")
    del settings["n_blocks"]
    return settings


def _local_settings(weights: StateDict, _: Mapping[str, int]) -> dict[str, Any]:
    n_enhancers, settings = count(weights, r"model(\d+)_1\..*"), _trunk_settings(weights)
    return {
        **settings,
        "out_channels": weights[_convolutions(weights, f"model{n_enhancers}_2")[-1]].shape[0],
        "base_channels": settings["base_channels"] // 2**n_enhancers,
        "n_enhancers": n_enhancers,
        "n_enhancer_blocks": count(weights, r"model1_2\.(\d+)\.conv_block\..*"),
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


def _discriminator_settings(weights: StateDict, first: str, second: str, **sizes: Any) -> dict[str, Any]:
    """Return the settings of a discriminator by its first two convolutions, and its sizes."""
    base_channels, in_channels = weights[f"{first}.weight"].shape[:2]
    images = {"source_channels": max(in_channels - 3, 0), "image_channels": min(in_channels, 3)}
    return {**images, "base_channels": base_channels, "norm": _norm_behind(weights, second), **sizes}


def _multiscale_settings(weights: StateDict, _: Mapping[str, int]) -> dict[str, Any]:
    n_layers, n_scales = (count(weights, pattern) for pattern in (r"scale0_layer(\d+)\..*", r"scale(\d+)_.*"))
    sizes = {"n_layers": n_layers - 2, "n_scales": n_scales}
    return _discriminator_settings(weights, "scale0_layer0.0", "scale0_layer1.0", **sizes)


def _multiscale_settings_without_features(weights: StateDict, _: Mapping[str, int]) -> dict[str, Any]:
    sizes = {"n_layers": len(_convolutions(weights, "layer0")) - 2, "n_scales": count(weights, r"layer(\d+)\..*")}
    return _discriminator_settings(weights, "layer0.0", "layer0.2", **sizes)


def _patch_settings(downsample: str, weights: StateDict, _: Mapping[str, int]) -> dict[str, Any]:
    first, second, *others = (key.removesuffix(".weight") for key in _convolutions(weights, "model"))
    sizes = {"n_layers": len(others), "n_scales": 1, "padding": 1, "downsample": downsample}
    settings = _discriminator_settings(weights, first, second, **sizes)
    return settings | {"max_channels": 8 * settings["base_channels"]}


def _projection_settings(weights: StateDict, _: Mapping[str, int]) -> dict[str, Any]:
    n_taps, channels = count(weights, r"mlp_(\d+)\..*"), weights["mlp_0.0.weight"].shape[0]
    return {
        "feature_channels": [weights[f"mlp_{tap}.0.weight"].shape[1] for tap in range(n_taps)],
        "channels": channels,
    }


def _has_trunk(weights: StateDict, *, has_blocks: bool) -> bool:
    return has("model.1.weight", (7, 7))(weights) and any("conv_block" in key for key in weights) == has_blocks


_GLOBAL = OriginalFormat(
    ("pix2pixHD", *_OF_PIX2PIX, "CUT"),
    "generator",
    GlobalGenerator,
    recognizes=partial(_has_trunk, has_blocks=True),
    settings=_global_settings,
    names=partial(_sequential, "model", _TRUNK),
    fixed={"skips": "none"},
)
_MULTISCALE = OriginalFormat(
    ("pix2pixHD",),
    "discriminator",
    MultiscalePatchDiscriminator,
    recognizes=has("scale0_layer0.0.weight"),
    settings=_multiscale_settings,
    names=partial(_patch_names, "scale{scale}_layer{layer}"),
)
_PATCH = OriginalFormat(
    (*_OF_PIX2PIX, "CUT"),
    "discriminator",
    MultiscalePatchDiscriminator,
    recognizes=has("model.0.weight", (4, 4)),
    settings=partial(_patch_settings, "strided"),
    names=partial(_patch_names, "model"),
)
FORMATS: dict[str, OriginalFormat] = {
    "cut": replace(
        _GLOBAL,
        families=("CUT",),
        recognizes=lambda weights: _GLOBAL.recognizes(weights) and any(_antialiased(weights)),
        constants=partial(_filters, _TRUNK),
    ),
    "cut_discriminator": replace(
        _PATCH,
        families=("CUT",),
        recognizes=lambda weights: _PATCH.recognizes(weights) and has("model.3.weight", (4, 4))(weights),
        settings=partial(_patch_settings, "antialiased"),
        constants=partial(_filters, ["scales.0.layers", "scales.0.head"]),
    ),
    "cut_projection": OriginalFormat(
        ("CUT",),
        "projection",
        PatchProjection,
        recognizes=has("mlp_0.0.weight"),
        settings=_projection_settings,
        names=lambda network: {f"taps.{i}.{k}": f"mlp_{i}.{k}" for i in range(len(network.taps)) for k in (0, 2)},
    ),
    "multiscale": _MULTISCALE,
    "multiscale_without_features": replace(
        _MULTISCALE,
        recognizes=has("layer0.0.weight"),
        settings=_multiscale_settings_without_features,
        names=partial(_patch_names, "layer{scale}"),
        is_written=False,  # networks of ours are written with features
    ),
    "unet": OriginalFormat(
        _OF_PIX2PIX, "generator", UnetGenerator, has("model.model.0.weight"), _unet_settings, _unet_names
    ),
    "pixel": OriginalFormat(
        _OF_PIX2PIX,
        "discriminator",
        PixelDiscriminator,
        recognizes=has("net.0.weight"),
        settings=lambda weights, _: _discriminator_settings(weights, "net.0", "net.2"),
        names=partial(_sequential, "net", ["layers", "head"]),
    ),
    "local": OriginalFormat(
        ("pix2pixHD",), "generator", LocalEnhancer, has("model1_1.1.weight"), _local_settings, _local_names
    ),
    "global": _GLOBAL,
    "encoder": OriginalFormat(
        ("pix2pixHD",),
        "encoder",
        FeatureEncoder,
        recognizes=partial(_has_trunk, has_blocks=False),
        settings=_encoder_settings,
        names=partial(_sequential, "model", [f"network.{part}" for part in _TRUNK]),
    ),
    "patch": _PATCH,
}
