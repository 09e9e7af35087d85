"""Conversion of state dicts of OASIS's generator and discriminator to networks of ours, and back.

Its generator's layers have SPADE's names within a block, and its files hold spectral norm as SPADE's do.
"""

import re
from collections.abc import Mapping
from typing import cast

import torch
from torch import Tensor, nn
from torch.nn.utils.parametrize import is_parametrized

from models.originals import spade
from models.originals.layer_names import NoSuchNetworkError, OriginalWeightsError, Scheme
from models.segmentation_discriminator import SegmentationDiscriminator
from models.spade_generator import ConditionReduction, SpadeBlock, SpadeGenerator
from models.spectral_norm import add_spectral_norm

Weights = dict[str, Tensor]

NOISE_CHANNELS = 64  # OASIS's --z_dim
_N_UPSAMPLINGS = 5
_HIDDEN_CHANNELS = 128
_WIDTHS = [128, 128, 256, 256, 512, 512, 512, 256, 256, 128, 128, 64]  # of the discriminator's blocks
_FIRST = "body_down.0.conv1.0.weight"
_OF_BLOCKS = "body"
_OF_GENERATOR = ("fc", "conv_img")
_OF_DISCRIMINATOR = {"body_down": "unet.downs", "body_up": "unet.ups"}
_LAST = "layer_up_last"


def recognize_oasis(weights: Mapping[str, Tensor]) -> Scheme | None:
    """Return whether a state dict is of OASIS's generator or discriminator, None where it is of neither."""
    if "body.0.norm_0.mlp_shared.0.weight" in weights:
        return "oasis"
    return "oasis_discriminator" if f"{_LAST}.weight" in weights else None


def is_oasis(scheme: Scheme) -> bool:
    """Return whether a scheme is one of this module's."""
    return scheme in ("oasis", "oasis_discriminator")


def import_oasis(
    state: Mapping[str, Tensor], scheme: Scheme, noise_channels: int | None = None, n_upsamplings: int | None = None
) -> nn.Module:
    """Return the network of ours that computes the same as OASIS's with these weights.

    noise_channels: how many channels of the generator's condition, the first ones, are noise, which the weights leave
        open. None: 64, OASIS's default, where there are more channels than that; otherwise 0.
    n_upsamplings: expected of the generator; None or 5, the only number that there is.

    Raises:
        OriginalWeightsError, KeyError, ValueError, RuntimeError: the weights are not of such a network.
    """
    weights = spade.with_v(state)
    if scheme == "oasis_discriminator":
        with torch.device("meta"):
            discriminator = _discriminator(weights)
        converted = {our_discriminator_name(key): value for key, value in weights.items()}
        discriminator.load_state_dict(converted, assign=True)
        return discriminator
    if n_upsamplings not in (None, _N_UPSAMPLINGS):
        raise OriginalWeightsError(f"has the weights of {_N_UPSAMPLINGS} upsamplings, not {n_upsamplings}")
    with torch.device("meta"):
        generator = _generator(weights, noise_channels)
    spade.load_generator_weights(generator, {our_name(key): value for key, value in weights.items()})
    return generator


def export_oasis(network: nn.Module) -> Weights:
    """Return the state dict that OASIS would have of a network, on the CPU.

    Raises:
        OriginalWeightsError: OASIS has no such network.
    """
    state = {key: value.detach().cpu() for key, value in network.state_dict().items()}
    _check_exportable(network)
    if isinstance(network, SegmentationDiscriminator):
        return {original_discriminator_name(key): value for key, value in state.items()}
    weights = {original_name(key): value for key, value in state.items()}
    for name, block in network.named_modules():
        if isinstance(block, SpadeBlock):
            number = name.removeprefix("blocks.")
            weights[f"{_OF_BLOCKS}.{number}.conv_0.bias"] = torch.zeros(block.conv1.out_channels)
    return weights


def our_name(key: str) -> str:
    """Return our name of a tensor of OASIS's generator."""
    first, _, rest = key.partition(".")
    if first in _OF_GENERATOR:
        return spade.our_name(key)
    number, _, rest = rest.partition(".")
    if first != _OF_BLOCKS or not number.isdecimal():
        raise KeyError(f"{key} is unknown")
    ours = spade.our_name(f"head_0.{rest.replace('.first_norm.', '.param_free_norm.')}")
    return f"blocks.{number}.{ours.removeprefix('blocks.0.')}"


def original_name(key: str) -> str:
    """Return OASIS's name of a tensor of our generator."""
    if not key.startswith("blocks."):
        return spade.original_name(key)
    _, number, rest = key.split(".", 2)
    original = spade.original_name(f"blocks.0.{rest}").removeprefix("head_0.")
    return f"{_OF_BLOCKS}.{number}.{original.replace('.param_free_norm.', '.first_norm.')}"


def our_discriminator_name(key: str) -> str:
    """Return our name of a tensor of OASIS's discriminator."""
    if key.startswith(f"{_LAST}."):
        return key.replace(_LAST, "unet.head")
    match = re.fullmatch(r"(body_down|body_up)\.(\d+)\.(conv1|conv2|conv_s)((?:\.\d)?)\.(\w+)", key)
    if match is None or match[4] != _place(match[1], match[2], match[3]):
        raise KeyError(f"{key} is unknown")
    body, number, convolution, _, tensor = match.groups()
    part = "shortcut" if convolution == "conv_s" else convolution
    return f"{_OF_DISCRIMINATOR[body]}.{number}.{part}.{spade.SPECTRAL_NORM.get(tensor, tensor)}"


def original_discriminator_name(key: str) -> str:
    """Return OASIS's name of a tensor of our discriminator."""
    if key.startswith("unet.head."):
        return key.replace("unet.head", _LAST)
    _, bodies, number, part, tensor = key.split(".", 4)
    body = f"body_{bodies.removesuffix('s')}"
    convolution = "conv_s" if part == "shortcut" else part
    original = next((theirs for theirs, ours in spade.SPECTRAL_NORM.items() if ours == tensor), tensor)
    return f"{body}.{number}.{convolution}{_place(body, number, convolution)}.{original}"


def _place(body: str, number: str, convolution: str) -> str:
    """Return the place of a convolution in the original's Sequential, behind an activation and an upsampling."""
    match convolution:
        case "conv_s":
            return ""
        case "conv1" if body == "body_up":
            return ".2"
        case "conv1" if number == "0":
            return ".0"
        case _:
            return ".1"


def _generator(weights: Weights, noise_channels: int | None) -> SpadeGenerator:
    condition_channels = weights["fc.weight"].shape[1]
    usual = NOISE_CHANNELS if condition_channels > NOISE_CHANNELS else 0
    n_noise = usual if noise_channels is None else noise_channels
    if n_noise >= condition_channels:
        expected = f"takes {condition_channels} channels of noise and labels together"
        raise OriginalWeightsError(f"{expected}, not {n_noise} of noise: lower generator.noise_channels")
    generator = SpadeGenerator(
        in_channels=condition_channels - n_noise,
        out_channels=weights["conv_img.weight"].shape[0],
        base_channels=weights["fc.weight"].shape[0] // 16,
        n_upsamplings=_N_UPSAMPLINGS,
        n_middle_blocks=1,
        hidden_channels=weights["body.0.norm_0.mlp_shared.0.weight"].shape[0],
        noise_channels=n_noise,
        norm="batch" if "body.0.norm_0.first_norm.running_mean" in weights else "instance",
    )
    if "body.0.conv_0.weight_orig" in weights:
        add_spectral_norm(generator, iteration="v_first")
    return generator


def _discriminator(weights: Weights) -> SegmentationDiscriminator:
    last = weights[f"{_LAST}.weight"]
    widths = {value.shape[0] for key, value in weights.items() if key.startswith("body_") and value.dim() == 4}
    first = weights[f"{_FIRST}_orig" if f"{_FIRST}_orig" in weights else _FIRST]
    discriminator = SegmentationDiscriminator(
        n_classes=last.shape[0] - 1,
        image_channels=first.shape[1],
        base_channels=last.shape[1],
        max_channels=max(widths),
        n_downsamplings=6,
    )
    if f"{_FIRST}_orig" in weights:
        add_spectral_norm(discriminator, outer=False, iteration="v_first")
    return discriminator


def _check_exportable(network: nn.Module) -> None:
    """Raise OriginalWeightsError where OASIS has no such network."""
    match network:
        case SpadeGenerator():
            convolutions = [part for part in network.modules() if isinstance(part, nn.Conv2d)]
            reductions = [part for part in network.reductions if isinstance(part, ConditionReduction)]
            faults = {
                "n_upsamplings below 5": network.n_upsamplings < _N_UPSAMPLINGS,
                "n_middle_blocks 2": network.n_middle_blocks != 1,
                "hidden_channels other than 128": network.hidden_channels != _HIDDEN_CHANNELS,
                "an RGB source": any(reduction.takes_image for reduction in reductions),
                "a grey target": convolutions[-1].out_channels != 3,
            }
        case SegmentationDiscriminator():
            blocks = [*network.unet.downs, *network.unet.ups]
            convolutions = [part for block in blocks for part in block.modules() if isinstance(part, nn.Conv2d)]
            widths = [cast(nn.Conv2d, block.conv2).out_channels for block in blocks]
            faults = {
                "n_downsamplings, base_channels, max_channels other than 6, 64, 512": widths != _WIDTHS,
                "a grey target": convolutions[0].in_channels != 3,
                "spectral_norm all": is_parametrized(network.unet.head),
            }
        case _:
            faults = {type(network).__name__: True}
    for fault, is_there in faults.items():
        if is_there:
            raise NoSuchNetworkError(fault)
