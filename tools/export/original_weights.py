"""Weight files that pix2pixHD, pix2pix, SPADE and OASIS load."""

from pathlib import Path
from typing import cast

import torch
from torch import nn
from torch.nn.utils.parametrize import is_parametrized

from inference.original_weights import encoder_file
from models.feature_encoder import FeatureEncoder
from models.generator import EncodedGenerator
from models.global_generator import GlobalGenerator
from models.local_enhancer import LocalEnhancer
from models.originals.layer_names import NoSuchNetworkError, OriginalWeightsError, Scheme
from models.originals.weights import export_original, import_original
from models.patch_discriminator import MultiscalePatchDiscriminator, PixelDiscriminator
from models.segmentation_discriminator import SegmentationDiscriminator
from models.spade_generator import SpadeGenerator
from models.spectral_norm import spectral_norms
from models.style_encoder import StyleEncoder
from models.unet_generator import UnetGenerator
from utils.checkpoint import write_weights_file
from utils.log import logger

DISCRIMINATORS = (MultiscalePatchDiscriminator, PixelDiscriminator, SegmentationDiscriminator)
SCHEMES: dict[type, Scheme] = {
    GlobalGenerator: "global",
    LocalEnhancer: "local",
    UnetGenerator: "unet",
    FeatureEncoder: "encoder",
    SpadeGenerator: "spade",
    PixelDiscriminator: "pixel",
    SegmentationDiscriminator: "oasis_discriminator",
    StyleEncoder: "spade_encoder",
}
FAMILIES: dict[Scheme, tuple[str, ...]] = {
    "encoder": ("pix2pixHD",),
    "global": ("pix2pixHD", "pix2pix"),
    "local": ("pix2pixHD",),
    "unet": ("pix2pix",),
    "spade": ("SPADE",),
    "oasis": ("OASIS",),
    "multiscale": ("pix2pixHD",),
    "patch": ("pix2pix",),
    "pixel": ("pix2pix",),
    "spade_multiscale": ("SPADE",),
    "oasis_discriminator": ("OASIS",),
    "spade_encoder": ("SPADE",),
}


def scheme_of(network: nn.Module) -> Scheme:
    """Return how the originals name the layers of a network.

    Raises:
        OriginalWeightsError: they have no such discriminator.
    """
    if isinstance(network, MultiscalePatchDiscriminator):
        return _scheme_of_patches(network)
    is_oasis = isinstance(network, SpadeGenerator) and network.n_middle_blocks == 1
    return "oasis" if is_oasis else SCHEMES[type(network)]


def _scheme_of_patches(discriminator: MultiscalePatchDiscriminator) -> Scheme:
    heads = [cast(nn.Conv2d, scale.get_submodule("head")) for scale in discriminator.scales]
    padding, is_normed = heads[0].padding[0], bool(spectral_norms(discriminator))
    if is_parametrized(heads[0]):
        raise NoSuchNetworkError("spectral_norm all")
    if padding == 1 and len(heads) == 1 and not is_normed:
        return "patch"
    if padding != 2:
        raise NoSuchNetworkError(f"padding {padding}")
    return "spade_multiscale" if is_normed else "multiscale"


def original_files(generator: nn.Module, output: Path) -> dict[Path, nn.Module]:
    """Return the networks by file: the originals have the encoder in a file of its own, latest_net_E.pth."""
    if not isinstance(generator, EncodedGenerator):
        return {output: generator}
    return {output: generator.generator, encoder_file(output): generator.encoder}


def choose_family(network: nn.Module, wanted: str | None) -> str:
    """Return the family that has this network, pix2pixHD if both have it; dropout is of pix2pix alone.

    Raises:
        OriginalWeightsError: the wanted family has no such network.
    """
    families = FAMILIES[scheme_of(network)]
    if any(isinstance(module, nn.Dropout) for module in network.modules()):
        families = tuple(family for family in families if family == "pix2pix")
    if wanted is not None and wanted not in families:
        kind = "discriminator" if isinstance(network, DISCRIMINATORS) else "generator"
        raise OriginalWeightsError(f"--family {wanted} has no such {kind}, only {', '.join(families)}")
    return wanted or families[0]


def write_original(network: nn.Module, path: Path, family: str) -> None:
    """Write the state dict that the family loads, after a check that importing it gives the same weights.

    Raises:
        OriginalWeightsError: the family has no such network.
    """
    try:
        weights = _original_weights(network, path, family)
    except NoSuchNetworkError as error:
        others = "; --format safetensors, onnx and pt2 take any generator"
        raise OriginalWeightsError(
            f"{family} has no such network: {error.fault}{'' if isinstance(network, DISCRIMINATORS) else others}"
        ) from error
    write_weights_file(path, weights)
    logger.info("wrote %s: %d tensors in the format of %s", path, len(weights), family)


def _original_weights(network: nn.Module, path: Path, family: str) -> dict[str, torch.Tensor]:
    """Return the state dict of the family; raise OriginalWeightsError where importing it gives other weights."""
    has_instance_norm = any(isinstance(module, nn.InstanceNorm2d) for module in network.modules())
    # pix2pixHD has a bias before every norm, pix2pix only before instance norm
    weights = export_original(
        network, scheme_of(network), biases_before_norms=family == "pix2pixHD" or has_instance_norm
    )
    again = import_original(weights).network.state_dict()
    for key, value in network.state_dict().items():
        if not torch.equal(again[key], value):
            raise OriginalWeightsError(f"{path}: {key} changes when it is imported again")
    return weights
