"""The networks of OASIS, whose generator has SPADE's blocks."""

from collections.abc import Mapping
from typing import Any, cast

from torch import nn
from torch.nn.utils.parametrize import is_parametrized

from models.originals import spade
from models.originals.format import Names, OriginalFormat, OriginalWeightsError, StateDict, first_fault, has
from models.segmentation_discriminator import SegmentationDiscriminator, SegmentationUnet
from models.spade_generator import ConditionReduction, SpadeGenerator

_NOISE_CHANNELS = 64  # OASIS's --z_dim
_N_UPSAMPLINGS = 5
_HIDDEN_CHANNELS = 128
_WIDTHS = [128, 128, 256, 256, 512, 512, 512, 256, 256, 128, 128, 64]  # of the discriminator's blocks


def _generator_names(network: SpadeGenerator) -> Names:
    blocks = (f"body.{number}" for number in range(len(network.blocks)))
    return spade.generator_names(blocks, spade.block_names("first_norm"))


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


def _generator_settings(weights: StateDict, chosen: Mapping[str, int]) -> dict[str, Any]:
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


def _discriminator_settings(weights: StateDict, _: Mapping[str, int]) -> dict[str, Any]:
    last = weights["layer_up_last.weight"]
    return {
        "n_classes": last.shape[0] - 1,
        "image_channels": spade.weight(weights, "body_down.0.conv1.0").shape[1],
        "base_channels": last.shape[1],
        "max_channels": max(
            value.shape[0] for key, value in weights.items() if key.startswith("body_") and value.dim() == 4
        ),
        "n_downsamplings": 6,
    }


def _generator_fault(network: SpadeGenerator) -> str:
    convolutions = [part for part in network.modules() if isinstance(part, nn.Conv2d)]
    reductions = [part for part in network.reductions if isinstance(part, ConditionReduction)]
    return first_fault(
        {
            "n_upsamplings below 5": network.n_upsamplings < _N_UPSAMPLINGS,
            "hidden_channels other than 128": network.hidden_channels != _HIDDEN_CHANNELS,
            "an RGB source": any(reduction.takes_image for reduction in reductions),
            "a grey target": convolutions[-1].out_channels != 3,
        }
    )


def _discriminator_fault(network: SegmentationDiscriminator) -> str:
    blocks = [*network.unet.downs, *network.unet.ups]
    convolutions = [part for block in blocks for part in block.modules() if isinstance(part, nn.Conv2d)]
    widths = [cast(nn.Conv2d, block.conv2).out_channels for block in blocks]
    return first_fault(
        {
            "n_downsamplings, base_channels, max_channels other than 6, 64, 512": widths != _WIDTHS,
            "a grey target": convolutions[0].in_channels != 3,
            "spectral_norm all": is_parametrized(network.unet.head),
        }
    )


FORMATS: dict[str, OriginalFormat] = {
    "oasis": OriginalFormat(
        ("OASIS",),
        "generator",
        SpadeGenerator,
        recognizes=has("body.0.norm_0.mlp_shared.0.weight"),
        settings=_generator_settings,
        names=_generator_names,
        fault=_generator_fault,
        is_of=lambda network: network.n_middle_blocks == 1,
    ),
    "oasis_discriminator": OriginalFormat(
        ("OASIS",),
        "discriminator",
        SegmentationDiscriminator,
        recognizes=has("layer_up_last.weight"),
        settings=_discriminator_settings,
        names=lambda network: unet_names(network.unet, "unet."),
        fault=_discriminator_fault,
    ),
}
