"""The networks of CUT and FastCUT; those without antialiasing are pix2pix's."""

from collections.abc import Callable, Mapping
from itertools import count, takewhile
from typing import Any, cast

import torch
from torch import nn

from models.global_generator import GlobalGenerator
from models.layers import AntialiasedDownsampling
from models.originals.format import Names, OriginalFormat, StateDict, first_fault, has
from models.originals.pix2pix import global_names, global_settings, patch_names, patch_settings
from models.patch_discriminator import MultiscalePatchDiscriminator
from models.patch_projection import PatchProjection
from models.spectral_norm import spectral_norms

_FILTERS: dict[type[nn.Module], tuple[int, ...]] = {AntialiasedDownsampling: (1, 2, 1), nn.Upsample: (1, 3, 3, 1)}

_patch_names = patch_names(lambda _scale, _layer, _k, place: f"model.{place}")


def _has_filters(first: str, sides: tuple[int, int]) -> Callable[[StateDict], bool]:
    has_first = has(first, sides)
    return lambda weights: has_first(weights) and any(key.endswith(".filt") for key in weights)


def _generator_settings(weights: StateDict, chosen: Mapping[str, int]) -> dict[str, Any]:
    sides = {value.shape[-1] for key, value in weights.items() if key.endswith(".filt")}
    return {
        **global_settings(weights, {**chosen, "biased_downs": True}),
        "downsample": "antialiased" if 3 in sides else "strided",
        "upsample": "antialiased" if 4 in sides else "transposed",
    }


def _discriminator_settings(weights: StateDict, chosen: Mapping[str, int]) -> dict[str, Any]:
    return {**patch_settings(weights, chosen), "downsample": "antialiased"}


def _projection_settings(weights: StateDict, _: Mapping[str, int]) -> dict[str, Any]:
    firsts = takewhile(weights.__contains__, (f"mlp_{tap}.0.weight" for tap in count()))
    shapes = [weights[key].shape for key in firsts]
    return {"feature_channels": [shape[1] for shape in shapes], "channels": shapes[0][0]}


def _filters_of(names: Callable[[Any], Names]) -> Callable[[nn.Module], StateDict]:
    """Return the function that returns the filters of a network's antialiased layers, by the original's names."""

    def filters(network: nn.Module) -> StateDict:
        originals, found = names(network), {}
        for path, layers in network.named_modules():
            for k, layer in enumerate(layers if isinstance(layers, nn.Sequential) else ()):
                if type(layer) not in _FILTERS:
                    continue
                first = int(k == 0)  # the place of the convolution, which an upsampling stands before
                convolution = layers.get_submodule(str(first))
                assert isinstance(convolution, nn.Conv2d)
                channels = convolution.in_channels if first else convolution.out_channels
                number = int(originals[f"{path}.{first}"].rpartition(".")[2]) + k - first
                row = torch.tensor(_FILTERS[type(layer)], dtype=torch.float32)
                found[f"model.{number}.filt"] = (row[:, None] * row / 16).repeat(channels, 1, 1, 1)
        return found

    return filters


def _generator_fault(network: GlobalGenerator) -> str:
    convolutions = [part for part in network.modules() if isinstance(part, nn.Conv2d)]
    return first_fault(
        {
            "spectral_norm": bool(spectral_norms(network)),
            "n_downsamplings other than 2": len(network.downs) != 2,
            f"upsample={network.upsample}": network.upsample not in ("antialiased", "transposed"),
            "padding=reflect": any(part.padding_mode != "zeros" for part in convolutions),
        }
    )


def _discriminator_fault(network: MultiscalePatchDiscriminator) -> str:
    head = cast(nn.Conv2d, network.scales[0].get_submodule("head"))
    return first_fault(
        {
            "spectral_norm": bool(spectral_norms(network)),
            "n_scales other than 1": len(network.scales) != 1,
            "padding other than 1": head.padding != (1, 1),
        }
    )


FORMATS: dict[str, OriginalFormat] = {
    "cut": OriginalFormat(
        ("CUT",),
        "generator",
        GlobalGenerator,
        recognizes=_has_filters("model.1.weight", (7, 7)),
        settings=_generator_settings,
        names=global_names,
        fault=_generator_fault,
        is_of=lambda network: "antialiased" in (network.downsample, network.upsample),
        constants=_filters_of(global_names),
    ),
    "cut_discriminator": OriginalFormat(
        ("CUT",),
        "discriminator",
        MultiscalePatchDiscriminator,
        recognizes=_has_filters("model.0.weight", (4, 4)),
        settings=_discriminator_settings,
        names=_patch_names,
        fault=_discriminator_fault,
        is_of=lambda network: network.downsample == "antialiased",
        constants=_filters_of(_patch_names),
    ),
    "cut_projection": OriginalFormat(
        ("CUT",),
        "projection",
        PatchProjection,
        recognizes=has("mlp_0.0.weight"),
        settings=_projection_settings,
        names=lambda network: {f"taps.{i}.{k}": f"mlp_{i}.{k}" for i in range(len(network.taps)) for k in (0, 2)},
        fault=lambda _: "",
    ),
}
