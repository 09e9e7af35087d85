"""--format original: weight files that the originals load."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import nn

from inference.load import LoadedGenerator, load_network
from inference.original_weights import encoder_file
from models.generator import EncodedGenerator
from models.originals.format import FAMILIES, FileRole, OriginalWeightsError
from models.originals.weights import FORMATS, export_original, import_original, scheme_of
from tools.export.format import Format
from utils.checkpoint import read_weights_file, write_weights_file
from utils.log import logger

_BIASED_BEFORE_INSTANCE_NORM = ("pix2pix", "CycleGAN", "CUT")  # the other families have biases before every norm
_LETTERS: dict[FileRole, str] = {"generator": "G", "discriminator": "D", "projection": "F"}  # letters in names of files


def write_original(
    loaded: LoadedGenerator, output: Path, family: str | None = None, network: FileRole = "generator"
) -> None:
    """Write the generator, and its encoder to a second file, or another network of its run, for an original.

    family: Name of the original. None: the one of the method, if it has the network, otherwise the first that has it.

    Raises:
        CheckpointError: The run has no such network.
        OriginalWeightsError: The family has no such network.
    """
    usual: str | None = loaded.config.method.declaration.original
    if network != "generator":
        other = load_network(loaded.file, network, direction=loaded.direction)
        write_network(other, output, choose_family(other, family, usual))
        return
    for key, value in (("scale", 1), ("output", "tanh")):
        if (found := getattr(loaded.config.generator, key)) != value:
            problem = f"no original has a network with generator.{key}={found}"
            raise OriginalWeightsError(f"{loaded.file}: {problem}. Use --format safetensors.")
    if loaded.step is None and loaded.file.suffix == ".pth":
        weights = read_weights_file(loaded.file, checks_content=False)
        has_biases = any(key.removeprefix("module.") == "model.1.bias" for key in weights)
        usual = None if has_biases else "pix2pix"  # pix2pixHD's files have biases before batch norm
    generator = loaded.generator
    parts = [generator.generator, generator.encoder] if isinstance(generator, EncodedGenerator) else [generator]
    families = [choose_family(part, family, usual) for part in parts]
    for part, path, of_part in zip(parts, generator_files(loaded, output), families, strict=True):
        write_network(part, path, of_part)


def generator_files(loaded: LoadedGenerator, output: Path) -> list[Path]:
    """Return the files of a generator: the originals have its encoder in a second file, latest_net_E.pth."""
    return [output, encoder_file(output)] if isinstance(loaded.generator, EncodedGenerator) else [output]


def default_stem(loaded: LoadedGenerator, options: Mapping[str, Any]) -> str:
    """Return the name of the originals' file: CycleGAN's G_A translates A, and D_A judges what G_A makes."""
    letters = [_LETTERS[options["network"]], *(loaded.named_direction or "")[:1]]
    return "_".join(["latest_net", *letters])


def choose_family(network: nn.Module, wanted: str | None, usual: str | None = None) -> str:
    """Return the family that has this network: the usual one or else the first; pix2pixHD has no dropout.

    Raises:
        OriginalWeightsError: No family has such a network, or the wanted family has none.
    """
    description = FORMATS[scheme_of(network)]
    families: tuple[str, ...] = description.families
    if any(isinstance(module, nn.Dropout) for module in network.modules()):
        families = tuple(family for family in families if family != "pix2pixHD")
    if wanted is not None and wanted not in families:
        raise OriginalWeightsError(f"--family {wanted} has no such {description.role}, only {', '.join(families)}")
    return wanted or (usual if usual in families else families[0])


def write_network(network: nn.Module, path: Path, family: str) -> None:
    """Write the state dict that the family loads, after a check that importing it gives the same weights.

    Raises:
        OriginalWeightsError: The family has no such network, or importing it gives other weights.
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


ORIGINAL = Format(
    content="the file of an original",
    suffix=".pth",
    write=write_original,
    options={
        "family": {"choices": FAMILIES, "help": "original; default: the first that has the network"},
        "network": {
            "choices": tuple(_LETTERS),
            "default": "generator",
            "help": "original: a run's discriminator or projection, to latest_net_D….pth or _F.pth; default: generator",
        },
    },
    stem=default_stem,
    paths=generator_files,
)
