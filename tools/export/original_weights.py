"""Weight files that the originals load."""

from pathlib import Path

import torch
from torch import nn

from inference.original_weights import encoder_file
from models.generator import EncodedGenerator
from models.originals.format import OriginalWeightsError
from models.originals.weights import FORMATS, export_original, import_original
from utils.checkpoint import write_weights_file
from utils.log import logger

_BIASED_BEFORE_INSTANCE_NORM = ("pix2pix", "CycleGAN", "CUT")  # alone; the others have biases before every norm


def scheme_of(network: nn.Module) -> str:
    """Return the name in FORMATS of the file that the originals have for a network.

    Raises:
        OriginalWeightsError: they have none.
    """
    for scheme, description in FORMATS.items():
        if type(network) is description.network and description.is_of(network):
            return scheme
    raise OriginalWeightsError(f"no original has a {type(network).__name__}. Use --format safetensors or onnx.")


def original_files(generator: nn.Module, output: Path) -> dict[Path, nn.Module]:
    """Return the networks by file: the originals have the encoder in a file of its own, latest_net_E.pth."""
    if not isinstance(generator, EncodedGenerator):
        return {output: generator}
    return {output: generator.generator, encoder_file(output): generator.encoder}


def choose_family(network: nn.Module, wanted: str | None, usual: str | None = None) -> str:
    """Return the family that has this network: the usual one or else the first; pix2pixHD has no dropout.

    Raises:
        OriginalWeightsError: no family has such a network, or the wanted one has not.
    """
    description = FORMATS[scheme_of(network)]
    families: tuple[str, ...] = description.families
    if any(isinstance(module, nn.Dropout) for module in network.modules()):
        families = tuple(family for family in families if family != "pix2pixHD")
    if fault := description.fault(network):
        others = "" if description.role == "discriminator" else "; --format safetensors and onnx take any generator"
        raise OriginalWeightsError(f"{wanted or families[0]} has no such network: {fault}{others}")
    if wanted is not None and wanted not in families:
        raise OriginalWeightsError(f"--family {wanted} has no such {description.role}, only {', '.join(families)}")
    return wanted or (usual if usual in families else families[0])


def write_original(network: nn.Module, path: Path, family: str) -> None:
    """Write the state dict that the family loads, after a check that importing it gives the same weights.

    Raises:
        OriginalWeightsError: the family has no such network, or importing it gives other weights.
    """
    has_instance_norm = any(isinstance(module, nn.InstanceNorm2d) for module in network.modules())
    has_biases = has_instance_norm or family not in _BIASED_BEFORE_INSTANCE_NORM
    weights = export_original(network, scheme_of(network), biases_before_norms=has_biases)
    again = import_original(weights, {"biased_downs": getattr(network, "biased_downs", False)}).network.state_dict()
    for key, value in network.state_dict().items():
        if not torch.equal(again[key], value):
            raise OriginalWeightsError(f"{path}: {key} changes when it is imported again")
    write_weights_file(path, weights)
    logger.info("wrote %s: %d tensors in the format of %s", path, len(weights), family)
