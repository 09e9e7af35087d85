"""File formats of SPADE's and OASIS's networks. OASIS's generator consists of SPADE's blocks.

With spectral norm, the files contain the weights before the normalization and the vectors of the power iteration.
"""

import math
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Any, cast

from torch import Tensor, nn

from models.originals.format import Names, OriginalFormat, OriginalWeightsError, Rules, StateDict, has, renamed
from models.originals.pix2pix import count
from models.patch_discriminator import MultiscalePatchDiscriminator
from models.segmentation_discriminator import SegmentationDiscriminator
from models.spade_generator import SpadeGenerator
from models.style_encoder import StyleEncoder

_CITYSCAPES_CHANNELS = 36  # labels and instance edges; only SPADE's generator for Cityscapes has six upsamplings
_N_UPSAMPLINGS, _NOISE_CHANNELS = 5, 64  # OASIS's generator has 5 upsamplings and by default 64 noise channels

_BLOCKS = ("head_0", "G_middle_0", "G_middle_1", "up_0", "up_1", "up_2", "up_3", "up_4")
BLOCK: Rules = {
    r"\b(conv|norm)1\b": r"\1_0",
    r"\b(conv|norm)2\b": r"\1_1",
    r"\bshortcut_norm\b": "norm_s",
    r"\bshortcut$": "conv_s",
    r"\bnorm$": "param_free_norm",
    r"\bshared\b": "mlp_shared",
    r"\bscale$": "mlp_gamma",
    r"\bshift$": "mlp_beta",
}
_ENDS: Rules = {r"^stem$": "fc", r"^head\.1$": "conv_img"}
_SPADE_GENERATOR: Rules = {**_ENDS, r"^blocks\.(\d+)": lambda block: _BLOCKS[int(block[1])], **BLOCK}
_OASIS_GENERATOR: Rules = {**_ENDS, r"^blocks": "body", **BLOCK, "param_free_norm": "first_norm"}
_ENCODER: Rules = {
    r"^layers\.(\d+)": lambda layer: f"layer{int(layer[1]) + 1}",
    "^mean$": "fc_mu",
    "^log_variance$": "fc_var",
}
UNET: Rules = {
    r"\bhead$": "layer_up_last",
    r"\b(down|up)s\.": r"body_\1.",
    r"\bshortcut$": "conv_s",
    r"(body_up.*\.conv1)$": r"\1.2",  # after an activation and an upsampling
    r"(body_down\.0\.conv1)$": r"\1.0",
    r"\b(conv[12])$": r"\1.1",  # after an activation
}


def _discriminator_names(network: MultiscalePatchDiscriminator) -> Names:
    """Return the original names of the convolutions. Norms are left out, because there are no biases to cancel."""
    last = len(cast(nn.ModuleList, network.scales[0].layers))
    rules = {
        r"scales\.(\d+)\.head": rf"discriminator_\1.model{last}.0",
        r"scales\.(\d+)\.layers\.0\.0": r"discriminator_\1.model0.0",
        r"scales\.(\d+)\.layers\.(\d+)": r"discriminator_\1.model\2.0",
    }
    return renamed(rules, network, (nn.Conv2d,))


def _weight(weights: StateDict, convolution: str) -> Tensor:
    """Return the weight of a convolution. With spectral norm, it is the weight before the division."""
    key = f"{convolution}.weight"
    return weights[f"{key}_orig" if f"{key}_orig" in weights else key]


def _shared_settings(weights: StateDict, block: str, norm: str) -> dict[str, Any]:
    """Return settings of SPADE's or OASIS's generator. block: Name of the first block. norm: Name of its norm layer."""
    return {
        "out_channels": weights["conv_img.weight"].shape[0],
        "base_channels": _weight(weights, f"{block}.conv_0").shape[0] // 16,
        "hidden_channels": weights[f"{block}.norm_0.mlp_shared.0.weight"].shape[0],
        "norm": "batch" if f"{block}.norm_0.{norm}.running_mean" in weights else "instance",
    }


def _generator_settings(weights: StateDict, chosen: Mapping[str, int]) -> dict[str, Any]:
    if chosen.get("noise_channels"):
        raise OriginalWeightsError(f"takes no noise. Set generator.noise_channels=0, not {chosen['noise_channels']}")
    condition_channels = weights["head_0.norm_0.mlp_shared.0.weight"].shape[1]
    most_channels, n_outputs = _weight(weights, "head_0.conv_0").shape[0], weights["fc.weight"].shape[0]
    if not 16 <= most_channels <= n_outputs:
        raise OriginalWeightsError(f"fc.weight has {n_outputs} outputs, and head_0 has {most_channels} channels")
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
    if weights["fc.weight"].dim() == 2:  # trained with SPADE's option --use_vae
        height, width = _style_sides(n_outputs // most_channels)
        settings |= {"style_channels": weights["fc.weight"].shape[1], "style_height": height, "style_width": width}
    return settings


def _allowed(n_upsamplings: int, possible: list[int]) -> int:
    if n_upsamplings not in possible:
        expected = " or ".join(map(str, sorted(possible)))
        raise OriginalWeightsError(f"has the weights of {expected} upsamplings, not {n_upsamplings}")
    return n_upsamplings


def _style_sides(n_pixels: int) -> tuple[int, int]:
    """Return the height and width, height <= width, of the most square map with `n_pixels` pixels."""
    height = next(side for side in range(math.isqrt(n_pixels), 0, -1) if n_pixels % side == 0)
    return height, n_pixels // height


def _oasis_generator_settings(weights: StateDict, chosen: Mapping[str, int]) -> dict[str, Any]:
    n_upsamplings = _allowed(chosen.get("n_upsamplings", _N_UPSAMPLINGS), [_N_UPSAMPLINGS])
    channels = weights["fc.weight"].shape[1]
    n_noise = chosen.get("noise_channels", _NOISE_CHANNELS if channels > _NOISE_CHANNELS else 0)
    if n_noise >= channels:
        found = f"takes {channels} channels for noise and labels together"
        raise OriginalWeightsError(f"{found}. Set generator.noise_channels lower than {n_noise}")
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
    names=partial(renamed, _SPADE_GENERATOR),
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
        partial(renamed, _ENCODER, layers=(nn.Conv2d, nn.Linear)),
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
        names=partial(renamed, _OASIS_GENERATOR),
        fixed={"hidden_channels": 128, "out_channels": 3},
        spectral_norm=None,
    ),
    "oasis_discriminator": OriginalFormat(
        ("OASIS",),
        "discriminator",
        SegmentationDiscriminator,
        has("layer_up_last.weight"),
        _oasis_discriminator_settings,
        partial(renamed, {r"^unet\.": "", **UNET}),
        fixed={"base_channels": 64, "max_channels": 512, "image_channels": 3},
        spectral_norm=None,
    ),
}
