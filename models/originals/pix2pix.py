"""The networks of pix2pixHD, and of pix2pix and CycleGAN, which are one program."""

import re
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, cast

from torch import nn
from torch.nn.utils.parametrize import is_parametrized

from models.blocks import Norm
from models.global_generator import GlobalGenerator, LocalEnhancer
from models.instance_features import FeatureEncoder
from models.layers import UpsampledConv2d
from models.originals.format import Family, Names, OriginalFormat, StateDict, has
from models.patch_discriminator import MultiscalePatchDiscriminator, PixelDiscriminator
from models.spectral_norm import spectral_norms
from models.unet_generator import UnetGenerator

_OF_PIX2PIX: tuple[Family, ...] = ("pix2pix", "CycleGAN")

# In each table of names, k counts the layers of a Sequential: a convolution, the norm behind it.


def _trunk_names(trunk: GlobalGenerator, ours: str = "") -> Names:
    names, number = {f"{ours}stem.{k}": f"model.{k}" for k in (1, 2)}, 4
    for i, down in enumerate(trunk.downs):
        names |= {f"{ours}downs.{i}.{k}": f"model.{number + k}" for k in (0, 1)}
        number += _length(down)
    for i, block in enumerate(trunk.blocks):
        names |= _block_names(block, f"{ours}blocks.{i}", f"model.{number + i}")
    number += len(trunk.blocks)
    for i, up in enumerate(trunk.ups):
        convolution = _length(up) - 3  # a norm and a ReLU follow it
        names |= {f"{ours}ups.{i}.{k}": f"model.{number + k}" for k in (convolution, convolution + 1)}
        number += _length(up)
    return names | {f"{ours}head.1": f"model.{number + 1}"}  # the trunk of a local enhancer has none


def _length(layers: nn.Module) -> int:
    return len(list(layers.children()))


def _block_names(block: nn.Module, ours: str, original: str) -> Names:
    second = 6 if any(isinstance(module, nn.Dropout) for module in block.modules()) else 5
    return {f"{ours}.body.{k}": f"{original}.conv_block.{k}" for k in (1, 2, second, second + 1)}


def _local_names(network: LocalEnhancer) -> Names:
    names = _trunk_names(network.trunk, "trunk.")
    for number, level in enumerate(network.enhancers):
        ours, first, second = f"enhancers.{number}", f"model{number + 1}_1", f"model{number + 1}_2"
        blocks = cast(nn.Sequential, level.blocks)
        names |= {f"{ours}.stem.{k}": f"{first}.{k}" for k in (1, 2)}
        names |= {f"{ours}.down.{k}": f"{first}.{4 + k}" for k in (0, 1)}
        for i, block in enumerate(blocks):
            names |= _block_names(block, f"{ours}.blocks.{i}", f"{second}.{i}")
        names |= {f"{ours}.up.{k}": f"{second}.{len(blocks) + k}" for k in (0, 1)}
        names["head.1"] = f"{second}.{len(blocks) + 4}"  # the last level wins
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


def _patch_names(original: str, network: MultiscalePatchDiscriminator) -> Names:
    """Return the names of a PatchGAN's layers.

    original: a name there, of {scale}, {layer} and part {k}, or of the {place} where a scale is one Sequential.
    """
    names = {}
    for number, scale in enumerate(network.scales):
        of_scale = len(network.scales) - 1 - number  # the original counts from the lowest resolution
        layers, begin = cast(nn.ModuleList, scale.layers), 0
        for layer, parts in enumerate(layers):
            for k in (0, 1) if layer else (0,):
                name = original.format(scale=of_scale, layer=layer, k=k, place=begin + k)
                names[f"scales.{number}.layers.{layer}.{k}"] = name
            begin += _length(parts)
        names[f"scales.{number}.head"] = original.format(scale=of_scale, layer=len(layers), k=0, place=begin)
    return names


def _norm_behind(weights: StateDict, convolution: str) -> Norm:
    container, _, number = convolution.rpartition(".")
    return "batch" if f"{container}.{int(number) + 1}.weight" in weights else "instance"


def count(weights: StateDict, pattern: str) -> int:
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
        "n_blocks": count(weights, r"model\.(\d+)\.conv_block\..*"),
        "norm": _norm_behind(weights, "model.1"),
    }


def _global_settings(weights: StateDict, chosen: Mapping[str, int]) -> dict[str, Any]:
    """Return the settings of a global generator; chosen: biased_downs keeps biases that instance norm cancels."""
    has_dropout = any(key.endswith("conv_block.6.weight") and weights[key].dim() == 4 for key in weights)
    settings = {**_trunk_settings(weights), "dropout": has_dropout}
    keeps_biases = bool(chosen.get("biased_downs")) and settings["norm"] == "instance"
    return settings | {"biased_downs": keeps_biases}


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


def _scored_settings(weights: StateDict, first: str, second: str, **sizes: int) -> dict[str, Any]:
    """Return the settings of a discriminator by its first two convolutions, and its sizes."""
    base_channels, in_channels = weights[f"{first}.weight"].shape[:2]
    images = {"source_channels": max(in_channels - 3, 0), "image_channels": min(in_channels, 3)}
    return {**images, "base_channels": base_channels, "norm": _norm_behind(weights, second), **sizes}


def _multiscale_settings(weights: StateDict, _: Mapping[str, int]) -> dict[str, Any]:
    n_layers, n_scales = (count(weights, pattern) for pattern in (r"scale0_layer(\d+)\..*", r"scale(\d+)_.*"))
    return _scored_settings(weights, "scale0_layer0.0", "scale0_layer1.0", n_layers=n_layers - 2, n_scales=n_scales)


def _multiscale_settings_without_features(weights: StateDict, _: Mapping[str, int]) -> dict[str, Any]:
    n_layers, n_scales = len(_convolutions(weights, "layer0")), count(weights, r"layer(\d+)\..*")
    return _scored_settings(weights, "layer0.0", "layer0.2", n_layers=n_layers - 2, n_scales=n_scales)


def _patch_settings(weights: StateDict, _: Mapping[str, int]) -> dict[str, Any]:
    first, second, *others = (key.removesuffix(".weight") for key in _convolutions(weights, "model"))
    settings = _scored_settings(weights, first, second, n_layers=len(others), n_scales=1, padding=1)
    return settings | {"max_channels": 8 * settings["base_channels"]}


def _has_trunk(*, has_blocks: bool) -> Callable[[StateDict], bool]:
    has_stem = has("model.1.weight", (7, 7))
    return lambda weights: has_stem(weights) and any("conv_block" in key for key in weights) == has_blocks


def _faults(network: nn.Module) -> dict[str, bool]:
    parts = list(network.modules())
    return {
        "skips": isinstance(network, GlobalGenerator) and network.skips != "none",
        "spectral_norm": bool(spectral_norms(network)),
        "upsample other than transposed": any(isinstance(part, nn.Upsample | UpsampledConv2d) for part in parts),
        "padding=reflect": any(isinstance(part, nn.Conv2d) and part.padding_mode != "zeros" for part in parts),
    }


def patch_faults(network: MultiscalePatchDiscriminator) -> dict[str, bool]:
    """Return settings that the PatchGANs of pix2pixHD and SPADE lack, and whether this network has them."""
    head = _head(network)
    return {"spectral_norm all": is_parametrized(head), f"padding {head.padding[0]}": head.padding[0] != 2}


def _head(network: MultiscalePatchDiscriminator) -> nn.Conv2d:
    return cast(nn.Conv2d, network.scales[0].get_submodule("head"))


def _is_of_pix2pix(network: MultiscalePatchDiscriminator) -> bool:
    return not spectral_norms(network) and len(network.scales) == 1 and _head(network).padding[0] == 1


FORMATS: dict[str, OriginalFormat] = {
    "multiscale": OriginalFormat(
        ("pix2pixHD",),
        "discriminator",
        MultiscalePatchDiscriminator,
        recognizes=has("scale0_layer0.0.weight"),
        settings=_multiscale_settings,
        names=partial(_patch_names, "scale{scale}_layer{layer}.{k}"),
        faults=patch_faults,
        is_of=lambda network: not spectral_norms(network) and not _is_of_pix2pix(network),
    ),
    "multiscale_without_features": OriginalFormat(
        ("pix2pixHD",),
        "discriminator",
        MultiscalePatchDiscriminator,
        recognizes=has("layer0.0.weight"),
        settings=_multiscale_settings_without_features,
        names=partial(_patch_names, "layer{scale}.{place}"),
        faults=patch_faults,
        is_of=lambda _: False,  # it is written with features
    ),
    "unet": OriginalFormat(
        _OF_PIX2PIX, "generator", UnetGenerator, has("model.model.0.weight"), _unet_settings, _unet_names, _faults
    ),
    "pixel": OriginalFormat(
        _OF_PIX2PIX,
        "discriminator",
        PixelDiscriminator,
        recognizes=has("net.0.weight"),
        settings=lambda weights, _: _scored_settings(weights, "net.0", "net.2"),
        names=lambda _: {"layers.0.0": "net.0", "layers.1.0": "net.2", "layers.1.1": "net.3", "head": "net.5"},
        faults=_faults,
    ),
    "local": OriginalFormat(
        ("pix2pixHD",), "generator", LocalEnhancer, has("model1_1.1.weight"), _local_settings, _local_names, _faults
    ),
    "global": OriginalFormat(
        ("pix2pixHD", *_OF_PIX2PIX, "CUT"),
        "generator",
        GlobalGenerator,
        recognizes=_has_trunk(has_blocks=True),
        settings=_global_settings,
        names=_trunk_names,
        faults=_faults,
    ),
    "encoder": OriginalFormat(
        ("pix2pixHD",),
        "encoder",
        FeatureEncoder,
        recognizes=_has_trunk(has_blocks=False),
        settings=_encoder_settings,
        names=lambda encoder: _trunk_names(encoder.network, "network."),
        faults=_faults,
    ),
    "patch": OriginalFormat(
        (*_OF_PIX2PIX, "CUT"),
        "discriminator",
        MultiscalePatchDiscriminator,
        recognizes=has("model.0.weight", (4, 4)),
        settings=_patch_settings,
        names=partial(_patch_names, "model.{place}"),
        is_of=_is_of_pix2pix,
    ),
}
