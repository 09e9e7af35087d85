"""File formats of the networks of pix2pixHD, pix2pix, CycleGAN and CUT."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import count as count_from
from typing import Any, cast

import torch
from torch import nn

from models.blocks import Norm, ResidualBlock
from models.global_generator import GlobalGenerator, LocalEnhancer
from models.instance_features import FeatureEncoder
from models.layers import AntialiasedDownsampling
from models.originals.format import NAMED, Family, Names, OriginalFormat, StateDict, has, renamed
from models.patch_discriminator import MultiscalePatchDiscriminator, PixelDiscriminator
from models.patch_projection import PatchProjection
from models.unet_generator import UnetGenerator

_PIX2PIX: tuple[Family, ...] = ("pix2pix", "CycleGAN")
_TRUNK = ("stem", "downs", "blocks", "ups", "head")
_FILTERS: dict[type[nn.Module], tuple[int, ...]] = {AntialiasedDownsampling: (1, 2, 1), nn.Upsample: (1, 3, 3, 1)}


def _flattened(network: nn.Module, parts: Sequence[str]) -> dict[str, nn.Module]:
    """Return the layers of `parts` in order, by our names. In the original, they form a single Sequential."""
    layers: dict[str, nn.Module] = {}
    for part in parts:
        layer = network.get_submodule(part)
        if isinstance(layer, nn.Sequential | nn.ModuleList):
            layers |= _flattened(network, [f"{part}.{child}" for child, _ in layer.named_children()])
        else:
            layers[part] = layer
    return layers


def _sequential(theirs: str, parts: Sequence[str], network: nn.Module) -> Names:
    """Return the original names of the layers of `parts`. In the original, they form the Sequential `theirs`."""
    names: Names = {}
    for number, (ours, layer) in enumerate(_flattened(network, parts).items()):
        if isinstance(layer, ResidualBlock):
            names |= _sequential(f"{theirs}.{number}.conv_block", [f"{ours}.body"], network)
        elif isinstance(layer, NAMED):
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
    """Return the prefix of the original U-Net's names at `level`. Level 0 contains all other levels."""
    return "model.model." + ("1.model." if level else "") + "3.model." * (level - 1)


def _patch_names(theirs: str, network: MultiscalePatchDiscriminator) -> Names:
    """Return the original layer names of PatchGANs. theirs: A Sequential's name, with {scale} and {layer}."""
    names: Names = {}
    for number, scale in enumerate(network.scales):
        their_number = len(network.scales) - 1 - number  # scale 0 of the original has the lowest resolution
        n_layers = len(cast(nn.ModuleList, scale.layers))
        parts = [*(f"scales.{number}.layers.{k}" for k in range(n_layers)), f"scales.{number}.head"]
        for layer, group in enumerate([part] for part in parts) if "{layer}" in theirs else [(0, parts)]:
            names |= _sequential(theirs.format(scale=their_number, layer=layer), group, network)
    return names


def _filters(parts: Sequence[str], network: nn.Module) -> StateDict:
    """Return the constant filters of antialiased layers, by their tensor names in CUT's files."""
    found, channels = {}, 0
    for number, layer in enumerate(_flattened(network, parts).values()):
        if isinstance(layer, nn.Conv2d):
            channels = layer.out_channels
        if type(layer) in _FILTERS:
            row = torch.tensor(_FILTERS[type(layer)], dtype=torch.float32)
            found[f"model.{number}.filt"] = (row[:, None] * row / 16).repeat(channels, 1, 1, 1)
    return found


def count(weights: StateDict, pattern: str) -> int:
    """Return how many different texts the group of `pattern` matches in the tensor names."""
    return len({match[1] for key in weights if (match := re.fullmatch(pattern, key))})


def _shapes(weights: StateDict, pattern: str) -> list[torch.Size]:
    """Return the weight shapes of convolutions whose names match, sorted by the number in the pattern's group."""
    found = {int(match[1]): weights[key].shape for key in weights if (match := re.fullmatch(pattern, key))}
    return [shape for _, shape in sorted(found.items()) if len(shape) == 4]


def _norm(weights: StateDict) -> Norm:
    has_weights = any(key.endswith(".weight") and value.dim() == 1 for key, value in weights.items())
    return "batch" if has_weights else "instance"


def _trunk_settings(weights: StateDict) -> dict[str, Any]:
    shapes = _shapes(weights, r"model\.(\d+)\.weight")
    return {
        "in_channels": weights["model.1.weight"].shape[1],
        "out_channels": shapes[-1][0],
        "base_channels": weights["model.1.weight"].shape[0],
        "n_downsamplings": sum(shape[2:] == (3, 3) for shape in shapes) // 2,  # the other half are upsamplings
        "n_blocks": count(weights, r"model\.(\d+)\.conv_block\..*"),
        "norm": _norm(weights),
    }


def _global_settings(weights: StateDict, chosen: Mapping[str, int]) -> dict[str, Any]:
    """Return the settings of a global generator. chosen: {"biased_downs": 1} keeps biases before norms."""
    settings, (downs, ups) = _trunk_settings(weights), _antialiased(weights)
    is_biased = bool(chosen.get("biased_downs")) or downs or ups
    return settings | {
        "dropout": any(key.endswith("conv_block.6.weight") and weights[key].dim() == 4 for key in weights),
        "biased_downs": is_biased and settings["norm"] == "instance",
        "downsample": "antialiased" if downs else "strided",
        "upsample": "antialiased" if ups else "transposed",
    }


def _antialiased(weights: StateDict) -> tuple[bool, bool]:
    """Return whether the downsamplings are antialiased as in CUT, and whether the upsamplings are.

    The first residual block is layer 12 after two antialiased downsamplings, and layer 10 after strided convolutions.
    """
    blocks = [int(match[1]) for key in weights if (match := re.match(r"model\.(\d+)\.conv_block", key))] or [0]
    return min(blocks) == 12, has(f"model.{max(blocks) + 2}.weight", (3, 3))(weights)


def _encoder_settings(weights: StateDict, _: Mapping[str, int]) -> dict[str, Any]:
    settings = _trunk_settings(weights)
    del settings["n_blocks"]
    return settings | {"n_features": settings.pop("out_channels")}


def _local_settings(weights: StateDict, _: Mapping[str, int]) -> dict[str, Any]:
    n_enhancers, settings = count(weights, r"model(\d+)_1\..*"), _trunk_settings(weights)
    return settings | {
        "out_channels": _shapes(weights, rf"model{n_enhancers}_2\.(\d+)\.weight")[-1][0],
        "base_channels": settings["base_channels"] // 2**n_enhancers,
        "n_enhancers": n_enhancers,
        "n_enhancer_blocks": count(weights, r"model1_2\.(\d+)\.conv_block\..*"),
    }


def _unet_settings(weights: StateDict, _: Mapping[str, int]) -> dict[str, Any]:
    n_levels = next(n for n in count_from(1) if f"{_unet_prefix(n)}1.weight" not in weights)
    return {
        "in_channels": weights["model.model.0.weight"].shape[1],
        "out_channels": weights["model.model.3.weight"].shape[1],
        "base_channels": weights["model.model.0.weight"].shape[0],
        "n_downsamplings": n_levels,
        "norm": _norm(weights),
        "dropout": "dropout" not in UnetGenerator.without_effect(n_downsamplings=n_levels),
    }


def _discriminator_settings(weights: StateDict, first: torch.Size, **sizes: Any) -> dict[str, Any]:
    """Return the settings of a discriminator. first: Shape of the first convolution's weight."""
    images = {"source_channels": max(first[1] - 3, 0), "image_channels": min(first[1], 3)}
    return {**images, "base_channels": first[0], "norm": _norm(weights), **sizes}


def _multiscale_settings(layer: str, scale: str, weights: StateDict, _: Mapping[str, int]) -> dict[str, Any]:
    """Return PatchGAN settings. layer: Name pattern for layers of one scale. scale: Name pattern for all scales."""
    shapes = _shapes(weights, layer)
    return _discriminator_settings(weights, shapes[0], n_layers=len(shapes) - 2, n_scales=count(weights, scale))


def _patch_settings(downsample: str, weights: StateDict, chosen: Mapping[str, int]) -> dict[str, Any]:
    settings = _multiscale_settings(r"model\.(\d+)\.weight", r"(model)\..*", weights, chosen)
    return settings | {"padding": 1, "downsample": downsample, "max_channels": 8 * settings["base_channels"]}


def _projection_settings(weights: StateDict, _: Mapping[str, int]) -> dict[str, Any]:
    inputs = [weights[f"mlp_{tap}.0.weight"].shape[1] for tap in range(count(weights, r"mlp_(\d+)\..*"))]
    return {"feature_channels": inputs, "channels": weights["mlp_0.0.weight"].shape[0]}


def _has_trunk(weights: StateDict, *, has_blocks: bool) -> bool:
    return has("model.1.weight", (7, 7))(weights) and any("conv_block" in key for key in weights) == has_blocks


_GLOBAL = OriginalFormat(
    ("pix2pixHD", *_PIX2PIX, "CUT"),
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
    settings=partial(_multiscale_settings, r"scale0_layer(\d+)\.0\.weight", r"scale(\d+)_.*"),
    names=partial(_patch_names, "scale{scale}_layer{layer}"),
)
_PATCH = replace(
    _MULTISCALE,
    families=(*_PIX2PIX, "CUT"),
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
        has("mlp_0.0.weight"),
        _projection_settings,
        partial(renamed, {r"taps\.(\d+)": r"mlp_\1"}),
    ),
    "multiscale": _MULTISCALE,
    "multiscale_without_features": replace(
        _MULTISCALE,
        recognizes=has("layer0.0.weight"),
        settings=partial(_multiscale_settings, r"layer0\.(\d+)\.weight", r"layer(\d+)\..*"),
        names=partial(_patch_names, "layer{scale}"),
        is_written=False,  # exports always use the format `multiscale`
    ),
    "unet": OriginalFormat(
        _PIX2PIX, "generator", UnetGenerator, has("model.model.0.weight"), _unet_settings, _unet_names
    ),
    "pixel": replace(
        _PATCH,
        families=_PIX2PIX,
        network=PixelDiscriminator,
        recognizes=has("net.0.weight"),
        settings=lambda weights, _: _discriminator_settings(weights, weights["net.0.weight"].shape),
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
        partial(_has_trunk, has_blocks=False),
        _encoder_settings,
        partial(_sequential, "model", [f"network.{part}" for part in _TRUNK]),
    ),
    "patch": _PATCH,
}
