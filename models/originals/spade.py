"""The networks of SPADE, and of OASIS, whose generator has blocks as SPADE's.

Their files hold the weights under spectral norm undivided, with the vectors of the power iteration.
"""

import math
from collections.abc import Iterable, Mapping
from typing import Any, cast

from torch import Tensor, nn
from torch.nn.utils.parametrize import is_parametrized

from models.originals.format import Names, OriginalFormat, OriginalWeightsError, StateDict, has
from models.originals.pix2pix import count, patch_faults
from models.patch_discriminator import MultiscalePatchDiscriminator
from models.segmentation_discriminator import SegmentationDiscriminator, SegmentationUnet
from models.spade_generator import ConditionReduction, SpadeGenerator
from models.spectral_norm import spectral_norms
from models.style_encoder import StyleEncoder

_CITYSCAPES_CHANNELS = 36  # labels and instance edges; its generator alone upsamples six times
_BLOCKS = ("head_0", "G_middle_0", "G_middle_1", "up_0", "up_1", "up_2", "up_3", "up_4")
_STYLE_CHANNELS = 256  # fixed in SPADE's encoder


def block_names(norm: str = "param_free_norm") -> Names:
    """Return the names of a block's layers; norm: the original's name of the norm in a SPADE layer."""
    names = {"conv1": "conv_0", "conv2": "conv_1", "shortcut": "conv_s"}
    for ours, original in (("norm1", "norm_0"), ("norm2", "norm_1"), ("shortcut_norm", "norm_s")):
        names |= {f"{ours}.norm": f"{original}.{norm}", f"{ours}.shared.0": f"{original}.mlp_shared.0"}
        names |= {f"{ours}.scale": f"{original}.mlp_gamma", f"{ours}.shift": f"{original}.mlp_beta"}
    return names


def _generator_names(blocks: Iterable[str], block: Names) -> Names:
    """Return the names of a generator; blocks: the original's names of its blocks. block: the names in each of them."""
    of_blocks = {f"blocks.{i}.{ours}": f"{name}.{block[ours]}" for i, name in enumerate(blocks) for ours in block}
    return {"stem": "fc", "head.1": "conv_img"} | of_blocks


def _discriminator_names(network: MultiscalePatchDiscriminator) -> Names:
    names = {}
    for number, scale in enumerate(network.scales):
        n_layers = len(cast(nn.ModuleList, scale.layers))
        for k in range(n_layers):
            names[f"scales.{number}.layers.{k}.0"] = f"discriminator_{number}.model{k}.{'0.0' if k else '0'}"
        names[f"scales.{number}.head"] = f"discriminator_{number}.model{n_layers}.0"
    return names


def _encoder_names(network: StyleEncoder) -> Names:
    of_layers = {f"layers.{number}.0": f"layer{number + 1}.0" for number in range(len(network.layers))}
    return of_layers | {"mean": "fc_mu", "log_variance": "fc_var"}


def _weight(weights: StateDict, convolution: str) -> Tensor:
    """Return the weight of a convolution, undivided where it has spectral norm."""
    key = f"{convolution}.weight"
    return weights[f"{key}_orig" if f"{key}_orig" in weights else key]


def _generator_settings(weights: StateDict, chosen: Mapping[str, int]) -> dict[str, Any]:
    if chosen.get("noise_channels"):
        raise OriginalWeightsError(f"takes no noise: generator.noise_channels is 0, not {chosen['noise_channels']}")
    hidden_channels, condition_channels = weights["head_0.norm_0.mlp_shared.0.weight"].shape[:2]
    most_channels = _weight(weights, "head_0.conv_0").shape[0]
    possible = [5, 6]
    if any(key.startswith("up_4.") for key in weights):
        possible = [7]
    elif condition_channels == _CITYSCAPES_CHANNELS:
        possible = [6, 5]
    n_upsamplings = chosen.get("n_upsamplings", possible[0])
    if n_upsamplings not in possible:
        expected = " or ".join(map(str, sorted(possible)))
        raise OriginalWeightsError(f"has the weights of {expected} upsamplings, not {n_upsamplings}")
    n_outputs = weights["fc.weight"].shape[0]
    if not 16 <= most_channels <= n_outputs:
        raise OriginalWeightsError(f"fc.weight has {n_outputs} outputs, head_0 {most_channels}")
    settings = {
        "in_channels": condition_channels,
        "out_channels": weights["conv_img.weight"].shape[0],
        "base_channels": most_channels // 16,
        "n_upsamplings": n_upsamplings,
        "n_middle_blocks": 2,
        "hidden_channels": hidden_channels,
        "noise_channels": 0,
        "norm": "batch" if "head_0.norm_0.param_free_norm.running_mean" in weights else "instance",
    }
    if weights["fc.weight"].dim() == 2:  # --use_vae
        height, width = _style_sides(n_outputs // most_channels)
        settings |= {"style_channels": weights["fc.weight"].shape[1], "style_height": height, "style_width": width}
    return settings


def _style_sides(n_pixels: int) -> tuple[int, int]:
    """Return the sides of a map of so many pixels that are nearest to each other, height <= width."""
    height = next(side for side in range(math.isqrt(n_pixels), 0, -1) if n_pixels % side == 0)
    return height, n_pixels // height


def _encoder_settings(weights: StateDict, _: Mapping[str, int]) -> dict[str, Any]:
    base_channels, in_channels = _weight(weights, "layer1.0").shape[:2]
    style_channels = weights["fc_mu.weight"].shape[0]
    return {"in_channels": in_channels, "style_channels": style_channels, "base_channels": base_channels}


def _discriminator_settings(weights: StateDict, _: Mapping[str, int]) -> dict[str, Any]:
    base_channels, in_channels = weights["discriminator_0.model0.0.weight"].shape[:2]
    n_layers = count(weights, r"discriminator_0\.model(\d+)\..*") - 2
    n_scales = count(weights, r"discriminator_(\d+)\..*")
    sizes = {"n_layers": n_layers, "n_scales": n_scales}
    return {"source_channels": in_channels - 3, "base_channels": base_channels, **sizes}


def _generator_faults(network: SpadeGenerator) -> dict[str, bool]:
    return {
        "n_upsamplings below 5": network.n_upsamplings < 5,
        "noise_channels": network.noise.n_channels > 0,
        "no spectral_norm": not spectral_norms(network),
    }


def _encoder_faults(network: StyleEncoder) -> dict[str, bool]:
    return {
        "style.channels other than 256": network.style_channels != _STYLE_CHANNELS,
        "no spectral_norm": not spectral_norms(network),
    }


_NOISE_CHANNELS = 64  # OASIS's --z_dim
_N_UPSAMPLINGS = 5
_HIDDEN_CHANNELS = 128
_WIDTHS = [128, 128, 256, 256, 512, 512, 512, 256, 256, 128, 128, 64]  # widths of the discriminator's blocks


def unet_names(unet: SegmentationUnet, ours: str = "") -> Names:
    """Return the names of a U-Net's layers; ours: prefix of our names.

    In the original a convolution stands behind an activation, which the first has not, and an upsampling.
    """
    names = {f"{ours}head": "layer_up_last"}
    for part, blocks in (("down", unet.downs), ("up", unet.ups)):
        for number in range(len(blocks)):
            place = 2 if part == "up" else int(number > 0)
            our_block, block = f"{ours}{part}s.{number}", f"body_{part}.{number}"
            names |= {f"{our_block}.conv1": f"{block}.conv1.{place}", f"{our_block}.conv2": f"{block}.conv2.1"}
            names[f"{our_block}.shortcut"] = f"{block}.conv_s"
    return names


def _oasis_generator_settings(weights: StateDict, chosen: Mapping[str, int]) -> dict[str, Any]:
    n_upsamplings = chosen.get("n_upsamplings", _N_UPSAMPLINGS)
    if n_upsamplings != _N_UPSAMPLINGS:
        raise OriginalWeightsError(f"has the weights of {_N_UPSAMPLINGS} upsamplings, not {n_upsamplings}")
    channels = weights["fc.weight"].shape[1]
    n_noise = chosen.get("noise_channels", _NOISE_CHANNELS if channels > _NOISE_CHANNELS else 0)
    if n_noise >= channels:
        expected = f"takes {channels} channels of noise and labels together"
        raise OriginalWeightsError(f"{expected}, not {n_noise} of noise: lower generator.noise_channels")
    return {
        "in_channels": channels - n_noise,
        "out_channels": weights["conv_img.weight"].shape[0],
        "base_channels": weights["fc.weight"].shape[0] // 16,
        "n_upsamplings": _N_UPSAMPLINGS,
        "n_middle_blocks": 1,
        "hidden_channels": weights["body.0.norm_0.mlp_shared.0.weight"].shape[0],
        "noise_channels": n_noise,
        "norm": "batch" if "body.0.norm_0.first_norm.running_mean" in weights else "instance",
    }


def _oasis_discriminator_settings(weights: StateDict, _: Mapping[str, int]) -> dict[str, Any]:
    last = weights["layer_up_last.weight"]
    return {
        "n_classes": last.shape[0] - 1,
        "image_channels": _weight(weights, "body_down.0.conv1.0").shape[1],
        "base_channels": last.shape[1],
        "max_channels": max(
            value.shape[0] for key, value in weights.items() if key.startswith("body_") and value.dim() == 4
        ),
        "n_downsamplings": 6,
    }


def _oasis_generator_faults(network: SpadeGenerator) -> dict[str, bool]:
    convolutions = [part for part in network.modules() if isinstance(part, nn.Conv2d)]
    reductions = [part for part in network.reductions if isinstance(part, ConditionReduction)]
    return {
        "n_upsamplings below 5": network.n_upsamplings < _N_UPSAMPLINGS,
        "hidden_channels other than 128": network.hidden_channels != _HIDDEN_CHANNELS,
        "an RGB source": any(reduction.takes_image for reduction in reductions),
        "a grey target": convolutions[-1].out_channels != 3,
    }


def _oasis_discriminator_faults(network: SegmentationDiscriminator) -> dict[str, bool]:
    blocks = [*network.unet.downs, *network.unet.ups]
    convolutions = [part for block in blocks for part in block.modules() if isinstance(part, nn.Conv2d)]
    widths = [cast(nn.Conv2d, block.conv2).out_channels for block in blocks]
    return {
        "n_downsamplings, base_channels, max_channels other than 6, 64, 512": widths != _WIDTHS,
        "a grey target": convolutions[0].in_channels != 3,
        "spectral_norm all": is_parametrized(network.unet.head),
    }


FORMATS: dict[str, OriginalFormat] = {
    "spade": OriginalFormat(
        ("SPADE",),
        "generator",
        SpadeGenerator,
        recognizes=lambda weights: bool({"head_0.conv_0.weight_orig", "head_0.conv_0.weight"} & weights.keys()),
        settings=_generator_settings,
        names=lambda network: _generator_names(_BLOCKS[: len(network.blocks)], block_names()),
        faults=_generator_faults,
        left_open=("n_upsamplings", "noise_channels"),
        is_of=lambda network: network.n_middle_blocks == 2,
    ),
    "spade_encoder": OriginalFormat(
        ("SPADE",), "encoder", StyleEncoder, has("fc_mu.weight"), _encoder_settings, _encoder_names, _encoder_faults
    ),
    "spade_multiscale": OriginalFormat(
        ("SPADE",),
        "discriminator",
        MultiscalePatchDiscriminator,
        recognizes=has("discriminator_0.model0.0.weight"),
        settings=_discriminator_settings,
        names=_discriminator_names,
        faults=patch_faults,
        is_of=lambda network: bool(spectral_norms(network)),
    ),
    "oasis": OriginalFormat(
        ("OASIS",),
        "generator",
        SpadeGenerator,
        recognizes=has("body.0.norm_0.mlp_shared.0.weight"),
        settings=_oasis_generator_settings,
        names=lambda network: _generator_names(
            (f"body.{i}" for i in range(len(network.blocks))), block_names("first_norm")
        ),
        faults=_oasis_generator_faults,
        left_open=("n_upsamplings", "noise_channels"),
        is_of=lambda network: network.n_middle_blocks == 1,
    ),
    "oasis_discriminator": OriginalFormat(
        ("OASIS",),
        "discriminator",
        SegmentationDiscriminator,
        recognizes=has("layer_up_last.weight"),
        settings=_oasis_discriminator_settings,
        names=lambda network: unet_names(network.unet, "unet."),
        faults=_oasis_discriminator_faults,
    ),
}
