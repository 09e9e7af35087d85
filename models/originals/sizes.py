"""Networks of ours in the sizes of the originals, derived from the names and shapes of their weights."""

import re
from collections.abc import Callable

from torch import Tensor, nn

from models.blocks import Norm
from models.feature_encoder import FeatureEncoder
from models.global_generator import GlobalGenerator
from models.local_enhancer import LocalEnhancer
from models.originals.layer_names import Scheme, next_in_sequence, unet_prefix
from models.patch_discriminator import MultiscalePatchDiscriminator, PixelDiscriminator
from models.unet_generator import UnetGenerator

Weights = dict[str, Tensor]


def _norm_behind(weights: Weights, convolution: str) -> Norm:
    return "batch" if f"{next_in_sequence(convolution)}.weight" in weights else "instance"


def _count(weights: Weights, pattern: str) -> int:
    """Return how many different values the pattern's group has in the names that match."""
    return len({match[1] for key in weights if (match := re.fullmatch(pattern, key))})


def _n_downs(weights: Weights) -> int:
    """Count the downsamplings: half of the 3x3 convolutions of the trunk's own Sequential; the others upsample."""
    return sum(weights[key].shape[2:] == (3, 3) for key in weights if re.fullmatch(r"model\.\d+\.weight", key)) // 2


def _n_blocks(weights: Weights) -> int:
    return _count(weights, r"model\.(\d+)\.conv_block\..*")


def _out_channels(weights: Weights, container: str) -> int:
    """Return the number of output channels of a Sequential's last convolution."""
    numbers = [int(match[1]) for key in weights if (match := re.fullmatch(rf"{container}\.(\d+)\.weight", key))]
    return weights[f"{container}.{max(numbers)}.weight"].shape[0]


def _build_global(weights: Weights) -> nn.Module:
    has_dropout = any(key.endswith("conv_block.6.weight") and weights[key].dim() == 4 for key in weights)
    return GlobalGenerator(
        in_channels=weights["model.1.weight"].shape[1],
        n_downsamplings=_n_downs(weights),
        n_blocks=_n_blocks(weights),
        out_channels=_out_channels(weights, "model"),
        base_channels=weights["model.1.weight"].shape[0],
        norm=_norm_behind(weights, "model.1"),
        dropout=has_dropout,
    )


def _build_encoder(weights: Weights) -> nn.Module:
    return FeatureEncoder(
        in_channels=weights["model.1.weight"].shape[1],
        n_features=_out_channels(weights, "model"),
        base_channels=weights["model.1.weight"].shape[0],
        n_downsamplings=_n_downs(weights),
        norm=_norm_behind(weights, "model.1"),
    )


def _build_local(weights: Weights) -> nn.Module:
    n_enhancers = _count(weights, r"model(\d+)_1\..*")
    return LocalEnhancer(
        in_channels=weights["model.1.weight"].shape[1],
        n_downsamplings=_n_downs(weights),
        n_blocks=_n_blocks(weights),
        out_channels=_out_channels(weights, f"model{n_enhancers}_2"),
        base_channels=weights["model.1.weight"].shape[0] // 2**n_enhancers,
        n_enhancers=n_enhancers,
        n_enhancer_blocks=_count(weights, r"model1_2\.(\d+)\.conv_block\..*"),
        norm=_norm_behind(weights, "model.1"),
    )


def _build_unet(weights: Weights) -> nn.Module:
    n_levels = 1
    while f"{unet_prefix(n_levels)}1.weight" in weights:
        n_levels += 1
    return UnetGenerator(
        in_channels=weights["model.model.0.weight"].shape[1],
        out_channels=weights["model.model.3.weight"].shape[1],
        base_channels=weights["model.model.0.weight"].shape[0],
        n_downsamplings=n_levels,
        norm=_norm_behind(weights, f"{unet_prefix(1)}1"),
    )


def _build_multiscale(weights: Weights) -> nn.Module:
    return MultiscalePatchDiscriminator(
        source_channels=weights["scale0_layer0.0.weight"].shape[1] - 3,
        base_channels=weights["scale0_layer0.0.weight"].shape[0],
        n_layers=_count(weights, r"scale0_layer(\d+)\..*") - 2,
        n_scales=_count(weights, r"scale(\d+)_.*"),
        norm=_norm_behind(weights, "scale0_layer1.0"),
    )


def _build_multiscale_without_features(weights: Weights) -> nn.Module:
    return MultiscalePatchDiscriminator(
        source_channels=weights["layer0.0.weight"].shape[1] - 3,
        base_channels=weights["layer0.0.weight"].shape[0],
        n_layers=_count_convolutions(weights, "layer0") - 2,
        n_scales=_count(weights, r"layer(\d+)\..*"),
        norm=_norm_behind(weights, "layer0.2"),
    )


def _build_patch(weights: Weights) -> nn.Module:
    base_channels = weights["model.0.weight"].shape[0]
    return MultiscalePatchDiscriminator(
        source_channels=weights["model.0.weight"].shape[1] - 3,
        base_channels=base_channels,
        n_layers=_count_convolutions(weights, "model") - 2,
        n_scales=1,
        norm=_norm_behind(weights, "model.2"),
        padding=1,
        max_channels=8 * base_channels,
    )


def _build_pixel(weights: Weights) -> nn.Module:
    return PixelDiscriminator(
        source_channels=weights["net.0.weight"].shape[1] - 3,
        base_channels=weights["net.0.weight"].shape[0],
        norm=_norm_behind(weights, "net.2"),
    )


def _count_convolutions(weights: Weights, container: str) -> int:
    return sum(value.dim() == 4 for key, value in weights.items() if re.fullmatch(rf"{container}\.\d+\.weight", key))


BUILDERS: dict[Scheme, Callable[[Weights], nn.Module]] = {
    "global": _build_global,
    "encoder": _build_encoder,
    "local": _build_local,
    "unet": _build_unet,
    "multiscale": _build_multiscale,
    "multiscale_without_features": _build_multiscale_without_features,
    "patch": _build_patch,
    "pixel": _build_pixel,
}
