"""The networks of SPADE and of OASIS, whose generator has SPADE's blocks.

Under spectral norm their files hold the undivided weights and the vectors of the power iteration.
"""

import math
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from torch import Tensor

from models.originals.format import Names, OriginalFormat, OriginalWeightsError, StateDict, has
from models.originals.pix2pix import count, n_layers
from models.patch_discriminator import MultiscalePatchDiscriminator
from models.segmentation_discriminator import SegmentationDiscriminator, SegmentationUnet
from models.spade_generator import SpadeGenerator
from models.style_encoder import StyleEncoder

_CITYSCAPES_CHANNELS = 36  # labels and instance edges; only Cityscapes' generator has six upsamplings
_BLOCKS = ("head_0", "G_middle_0", "G_middle_1", "up_0", "up_1", "up_2", "up_3", "up_4")
_N_UPSAMPLINGS, _NOISE_CHANNELS = 5, 64  # OASIS's generator; the noise is its default


def block_names(norm: str = "param_free_norm") -> Names:
    """Return the names of a block's layers; norm: The original's name of the norm in a SPADE layer."""
    names = {"conv1": "conv_0", "conv2": "conv_1", "shortcut": "conv_s"}
    for ours, original in (("norm1", "norm_0"), ("norm2", "norm_1"), ("shortcut_norm", "norm_s")):
        names |= {f"{ours}.norm": f"{original}.{norm}", f"{ours}.shared.0": f"{original}.mlp_shared.0"}
        names |= {f"{ours}.scale": f"{original}.mlp_gamma", f"{ours}.shift": f"{original}.mlp_beta"}
    return names


def _generator_names(blocks: Iterable[str], block: Names) -> Names:
    """Return the names of a generator from the original's names of its blocks, and the names within a block."""
    of_blocks = {f"blocks.{i}.{ours}": f"{name}.{block[ours]}" for i, name in enumerate(blocks) for ours in block}
    return {"stem": "fc", "head.1": "conv_img"} | of_blocks


def _discriminator_names(network: MultiscalePatchDiscriminator) -> Names:
    names: Names = {}
    for number, scale in enumerate(network.scales):
        ours, theirs = f"scales.{number}", f"discriminator_{number}.model"
        names |= {f"{ours}.layers.{k}.0": f"{theirs}{k}.{'0.0' if k else '0'}" for k in range(n_layers(scale))}
        names[f"{ours}.head"] = f"{theirs}{n_layers(scale)}.0"
    return names


def _encoder_names(network: StyleEncoder) -> Names:
    of_layers = {f"layers.{number}.0": f"layer{number + 1}.0" for number in range(len(network.layers))}
    return of_layers | {"mean": "fc_mu", "log_variance": "fc_var"}


def unet_names(unet: SegmentationUnet, ours: str = "") -> Names:
    """Return the names of a U-Net's layers; ours: Prefix of our names.

    In the original, a convolution comes after an activation, except in the first block, and after an upsampling.
    """
    names = {f"{ours}head": "layer_up_last"}
    for part, blocks in (("down", unet.downs), ("up", unet.ups)):
        for number in range(len(blocks)):
            place = 2 if part == "up" else int(number > 0)
            our_block, block = f"{ours}{part}s.{number}", f"body_{part}.{number}"
            names |= {f"{our_block}.conv1": f"{block}.conv1.{place}", f"{our_block}.conv2": f"{block}.conv2.1"}
            names[f"{our_block}.shortcut"] = f"{block}.conv_s"
    return names


def _weight(weights: StateDict, convolution: str) -> Tensor:
    """Return the weight of a convolution, undivided if it has spectral norm."""
    key = f"{convolution}.weight"
    return weights[f"{key}_orig" if f"{key}_orig" in weights else key]


def _shared_settings(weights: StateDict, block: str, norm: str) -> dict[str, Any]:
    """Return the settings that both generators have; block: Name of the first block, norm: name of its first norm."""
    return {
        "out_channels": weights["conv_img.weight"].shape[0],
        "base_channels": _weight(weights, f"{block}.conv_0").shape[0] // 16,
        "hidden_channels": weights[f"{block}.norm_0.mlp_shared.0.weight"].shape[0],
        "norm": "batch" if f"{block}.norm_0.{norm}.running_mean" in weights else "instance",
    }


def _generator_settings(weights: StateDict, chosen: Mapping[str, int]) -> dict[str, Any]:
    if chosen.get("noise_channels"):
        raise OriginalWeightsError(f"takes no noise: generator.noise_channels is 0, not {chosen['noise_channels']}")
    condition_channels = weights["head_0.norm_0.mlp_shared.0.weight"].shape[1]
    most_channels, n_outputs = _weight(weights, "head_0.conv_0").shape[0], weights["fc.weight"].shape[0]
    if not 16 <= most_channels <= n_outputs:
        raise OriginalWeightsError(f"fc.weight has {n_outputs} outputs, head_0 {most_channels}")
    possible = [6, 5] if condition_channels == _CITYSCAPES_CHANNELS else [5, 6]
    if any(key.startswith("up_4.") for key in weights):
        possible = [7]
    settings = {
        **_shared_settings(weights, "head_0", "param_free_norm"),
        "in_channels": condition_channels,
        "n_upsamplings": _allowed(chosen.get("n_upsamplings", possible[0]), possible),
        "n_middle_blocks": 2,
        "noise_channels": 0,
    }
    if weights["fc.weight"].dim() == 2:  # --use_vae
        height, width = _style_sides(n_outputs // most_channels)
        settings |= {"style_channels": weights["fc.weight"].shape[1], "style_height": height, "style_width": width}
    return settings


def _allowed(n_upsamplings: int, possible: list[int]) -> int:
    if n_upsamplings not in possible:
        expected = " or ".join(map(str, sorted(possible)))
        raise OriginalWeightsError(f"has the weights of {expected} upsamplings, not {n_upsamplings}")
    return n_upsamplings


def _style_sides(n_pixels: int) -> tuple[int, int]:
    """Return height and width of a map with so many pixels that are nearest to each other, height <= width."""
    height = next(side for side in range(math.isqrt(n_pixels), 0, -1) if n_pixels % side == 0)
    return height, n_pixels // height


def _oasis_generator_settings(weights: StateDict, chosen: Mapping[str, int]) -> dict[str, Any]:
    n_upsamplings = _allowed(chosen.get("n_upsamplings", _N_UPSAMPLINGS), [_N_UPSAMPLINGS])
    channels = weights["fc.weight"].shape[1]
    n_noise = chosen.get("noise_channels", _NOISE_CHANNELS if channels > _NOISE_CHANNELS else 0)
    if n_noise >= channels:
        expected = f"takes {channels} channels of noise and labels together"
        raise OriginalWeightsError(f"{expected}, not {n_noise} of noise: lower generator.noise_channels")
    return {
        **_shared_settings(weights, "body.0", "first_norm"),
        "in_channels": channels - n_noise,
        "n_upsamplings": n_upsamplings,
        "n_middle_blocks": 1,
        "noise_channels": n_noise,
    }


def _encoder_settings(weights: StateDict, _: Mapping[str, int]) -> dict[str, Any]:
    base_channels, in_channels = _weight(weights, "layer1.0").shape[:2]
    style_channels = weights["fc_mu.weight"].shape[0]
    return {"in_channels": in_channels, "style_channels": style_channels, "base_channels": base_channels}


def _discriminator_settings(weights: StateDict, _: Mapping[str, int]) -> dict[str, Any]:
    base_channels, in_channels = _weight(weights, "discriminator_0.model0.0").shape[:2]
    return {
        "source_channels": in_channels - 3,
        "base_channels": base_channels,
        "n_layers": count(weights, r"discriminator_0\.model(\d+)\..*") - 2,
        "n_scales": count(weights, r"discriminator_(\d+)\..*"),
    }


def _oasis_discriminator_settings(weights: StateDict, _: Mapping[str, int]) -> dict[str, Any]:
    n_logits, base_channels = _weight(weights, "layer_up_last").shape[:2]
    of_blocks = [value for key, value in weights.items() if key.startswith("body_") and value.dim() == 4]
    return {
        "n_classes": n_logits - 1,
        "image_channels": _weight(weights, "body_down.0.conv1.0").shape[1],
        "base_channels": base_channels,
        "max_channels": max(value.shape[0] for value in of_blocks),
        "n_downsamplings": 6,
    }


_SPADE = OriginalFormat(
    ("SPADE",),
    "generator",
    SpadeGenerator,
    recognizes=lambda weights: bool({"head_0.conv_0.weight_orig", "head_0.conv_0.weight"} & weights.keys()),
    settings=_generator_settings,
    names=lambda network: _generator_names(_BLOCKS[: len(network.blocks)], block_names()),
    spectral_norm=True,
    left_open=("n_upsamplings", "noise_channels"),
)
FORMATS: dict[str, OriginalFormat] = {
    "spade": _SPADE,
    "spade_encoder": OriginalFormat(
        ("SPADE",),
        "encoder",
        StyleEncoder,
        has("fc_mu.weight"),
        _encoder_settings,
        _encoder_names,
        fixed={"style_channels": 256},
        spectral_norm=True,
    ),
    "spade_multiscale": OriginalFormat(
        ("SPADE",),
        "discriminator",
        MultiscalePatchDiscriminator,
        has("discriminator_0.model0.0.weight"),
        _discriminator_settings,
        _discriminator_names,
        spectral_norm=True,
    ),
    "oasis": replace(
        _SPADE,
        families=("OASIS",),
        recognizes=has("body.0.norm_0.mlp_shared.0.weight"),
        settings=_oasis_generator_settings,
        names=lambda network: _generator_names(
            (f"body.{i}" for i in range(len(network.blocks))), block_names("first_norm")
        ),
        fixed={"hidden_channels": 128, "out_channels": 3},
        spectral_norm=None,
    ),
    "oasis_discriminator": OriginalFormat(
        ("OASIS",),
        "discriminator",
        SegmentationDiscriminator,
        has("layer_up_last.weight"),
        _oasis_discriminator_settings,
        lambda network: unet_names(network.unet, "unet."),
        fixed={"base_channels": 64, "max_channels": 512, "image_channels": 3},
        spectral_norm=None,
    ),
}
