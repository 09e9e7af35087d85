"""The networks of CUT and FastCUT, which are pix2pix's with antialiased layers, and the projection."""

import re
from collections.abc import Mapping
from dataclasses import replace
from itertools import count, takewhile
from typing import Any, cast

import torch
from torch import nn

from models.global_generator import GlobalGenerator
from models.layers import AntialiasedDownsampling
from models.originals import pix2pix
from models.originals.format import Names, OriginalFormat, StateDict, has
from models.patch_projection import PatchProjection
from models.spectral_norm import spectral_norms

_RESNET, _PATCHGAN = pix2pix.FORMATS["global"], pix2pix.FORMATS["patch"]
_FILTERS: dict[type[nn.Module], tuple[int, ...]] = {AntialiasedDownsampling: (1, 2, 1), nn.Upsample: (1, 3, 3, 1)}


def _antialiased(weights: StateDict) -> tuple[bool, bool]:
    """Return whether a ResNet has antialiased layers before and behind its blocks, by the numbers of these."""
    blocks = [int(match[1]) for key in weights if (match := re.match(r"model\.(\d+)\.conv_block", key))] or [0]
    # two antialiased downsamplings take the numbers from 4 to 11, two others those to 9
    return min(blocks) == 12, has(f"model.{max(blocks) + 2}.weight", (3, 3))(weights)


def _filters(network: nn.Module, names: Names) -> StateDict:
    """Return the filters of the antialiased layers, which the originals hold as buffers."""
    found = {}
    for path, layers in network.named_modules():
        for place, layer in enumerate(layers if isinstance(layers, nn.Sequential) else ()):
            if type(layer) not in _FILTERS:
                continue
            is_up = isinstance(layer, nn.Upsample)  # it is before its convolution
            convolution = cast(nn.Conv2d, layers.get_submodule(str(int(is_up))))
            channels = convolution.in_channels if is_up else convolution.out_channels
            number = int(names[f"{path}.{int(is_up)}"].rpartition(".")[2]) + place - int(is_up)
            row = torch.tensor(_FILTERS[type(layer)], dtype=torch.float32)
            found[f"model.{number}.filt"] = (row[:, None] * row / 16).repeat(channels, 1, 1, 1)
    return found


def _generator_settings(weights: StateDict, chosen: Mapping[str, int]) -> dict[str, Any]:
    downs, ups = _antialiased(weights)
    return {
        **_RESNET.settings(weights, {**chosen, "biased_downs": True}),
        "downsample": "antialiased" if downs else "strided",
        "upsample": "antialiased" if ups else "transposed",
    }


def _generator_faults(network: GlobalGenerator) -> dict[str, bool]:
    convolutions = [part for part in network.modules() if isinstance(part, nn.Conv2d)]
    return {
        "spectral_norm": bool(spectral_norms(network)),
        "n_downsamplings other than 2": len(network.downs) != 2,
        "skips": network.skips != "none",
        f"upsample={network.upsample}": network.upsample not in ("antialiased", "transposed"),
        "padding=reflect": any(part.padding_mode != "zeros" for part in convolutions),
    }


def _projection_settings(weights: StateDict, _: Mapping[str, int]) -> dict[str, Any]:
    firsts = takewhile(weights.__contains__, (f"mlp_{tap}.0.weight" for tap in count()))
    shapes = [weights[key].shape for key in firsts]
    return {"feature_channels": [shape[1] for shape in shapes], "channels": shapes[0][0]}


FORMATS: dict[str, OriginalFormat] = {
    "cut": replace(
        _RESNET,
        families=("CUT",),
        recognizes=lambda weights: _RESNET.recognizes(weights) and any(_antialiased(weights)),
        settings=_generator_settings,
        faults=_generator_faults,
        is_of=lambda network: "antialiased" in (network.downsample, network.upsample),
        constants=_filters,
    ),
    "cut_discriminator": replace(
        _PATCHGAN,
        families=("CUT",),
        recognizes=lambda weights: _PATCHGAN.recognizes(weights) and has("model.3.weight", (4, 4))(weights),
        settings=lambda weights, chosen: {**_PATCHGAN.settings(weights, chosen), "downsample": "antialiased"},
        faults=lambda network: {"spectral_norm, n_scales or padding other than 1": not _PATCHGAN.is_of(network)},
        is_of=lambda network: network.downsample == "antialiased",
        constants=_filters,
    ),
    "cut_projection": OriginalFormat(
        ("CUT",),
        "projection",
        PatchProjection,
        recognizes=has("mlp_0.0.weight"),
        settings=_projection_settings,
        names=lambda network: {f"taps.{i}.{k}": f"mlp_{i}.{k}" for i in range(len(network.taps)) for k in (0, 2)},
    ),
}
