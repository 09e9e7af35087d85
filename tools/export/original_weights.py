"""Weight files that pix2pixHD, pix2pix and SPADE load."""

from pathlib import Path

import torch
from torch import nn

from inference.original_weights import encoder_file
from models.encoded_generator import EncodedGenerator
from models.feature_encoder import FeatureEncoder
from models.global_generator import GlobalGenerator
from models.local_enhancer import LocalEnhancer
from models.originals.layer_names import OriginalWeightsError, Scheme
from models.originals.weights import export_original, import_original
from models.spade_generator import SpadeGenerator
from models.style_encoder import StyleEncoder
from models.unet_generator import UnetGenerator
from utils.checkpoint import write_weights_file
from utils.log import logger

SCHEMES: dict[type, Scheme] = {
    GlobalGenerator: "global",
    LocalEnhancer: "local",
    UnetGenerator: "unet",
    FeatureEncoder: "encoder",
    SpadeGenerator: "spade",
    StyleEncoder: "spade_encoder",
}
FAMILIES: dict[Scheme, tuple[str, ...]] = {
    "encoder": ("pix2pixHD",),
    "global": ("pix2pixHD", "pix2pix"),
    "local": ("pix2pixHD",),
    "unet": ("pix2pix",),
    "spade": ("SPADE",),
    "spade_encoder": ("SPADE",),
}


def original_files(generator: nn.Module, output: Path) -> dict[Path, nn.Module]:
    """Return the networks by file: the originals have the encoder in a file of its own, latest_net_E.pth."""
    if not isinstance(generator, EncodedGenerator):
        return {output: generator}
    return {output: generator.generator, encoder_file(output): generator.encoder}


def choose_family(generator: nn.Module, wanted: str | None) -> str:
    """Return the family that has this generator, pix2pixHD if both have it; dropout is of pix2pix alone.

    Raises:
        OriginalWeightsError: the wanted family has no such network.
    """
    families = FAMILIES[SCHEMES[type(generator)]]
    if any(isinstance(module, nn.Dropout) for module in generator.modules()):
        families = tuple(family for family in families if family == "pix2pix")
    if wanted is not None and wanted not in families:
        raise OriginalWeightsError(f"--family {wanted} has no such generator, only {', '.join(families)}")
    return wanted or families[0]


def write_original(network: nn.Module, path: Path, family: str) -> None:
    """Write the state dict that the family loads, after a check that importing it gives the same weights.

    Raises:
        OriginalWeightsError: the family has no such network.
    """
    has_instance_norm = any(isinstance(module, nn.InstanceNorm2d) for module in network.modules())
    # pix2pixHD has a bias before every norm, pix2pix only before instance norm
    weights = export_original(
        network, SCHEMES[type(network)], biases_before_norms=family == "pix2pixHD" or has_instance_norm
    )
    again = import_original(weights).network.state_dict()
    for key, value in network.state_dict().items():
        if not torch.equal(again[key], value):
            raise OriginalWeightsError(f"{path}: {key} changes when it is imported again")
    write_weights_file(path, weights)
    logger.info("wrote %s: %d tensors in the format of %s", path, len(weights), family)
