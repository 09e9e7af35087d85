"""--format original: weights files for the original projects (pix2pix, CycleGAN, pix2pixHD, CUT and others)."""

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

_BIASED_BEFORE_INSTANCE_NORM = ("pix2pix", "CycleGAN", "CUT")  # but not before batch norm
_LETTERS: dict[FileRole, str] = {"generator": "G", "discriminator": "D", "projection": "F"}  # letters in file names


def write_original(
    loaded: LoadedGenerator, output: Path, family: str | None = None, network: FileRole = "generator"
) -> None:
    """Write a network in the format of an original project.

    The encoder of a generator is written to a second file.

    family: Original project. None: the project of the training method, or the first project with such a network.
    network: Which network of the run to write.

    Raises:
        CheckpointError: The run has no such network.
        OriginalWeightsError: The original project has no such network.
    """
    usual: str | None = loaded.config.method.declaration.original
    if network != "generator":
        other = load_network(loaded.file, network, direction=loaded.direction)
        write_network(other, output, choose_family(other, family, usual))
        return
    for key, value in (("scale", 1), ("output", "tanh")):
        if (found := getattr(loaded.config.generator, key)) != value:
            problem = f"no original project has generator.{key}={found}"
            raise OriginalWeightsError(f"{loaded.file}: {problem}. Use --format safetensors.")
    if loaded.step is None and loaded.file.suffix == ".pth":
        weights = read_weights_file(loaded.file, checks_content=False)
        has_biases = any(key.removeprefix("module.") == "model.1.bias" for key in weights)
        usual = None if has_biases else "pix2pix"  # pix2pixHD has biases before batch norm
    generator = loaded.generator
    parts = [generator.generator, generator.encoder] if isinstance(generator, EncodedGenerator) else [generator]
    families = [choose_family(part, family, usual) for part in parts]
    for part, path, of_part in zip(parts, generator_files(loaded, output), families, strict=True):
        write_network(part, path, of_part)


def generator_files(loaded: LoadedGenerator, output: Path) -> list[Path]:
    """Return the path of the generator's file, and of its encoder's file if it has an encoder."""
    return [output, encoder_file(output)] if isinstance(loaded.generator, EncodedGenerator) else [output]


def default_stem(loaded: LoadedGenerator, options: Mapping[str, Any]) -> str:
    """Return the file name without suffix, such as latest_net_G. CycleGAN adds the source domain: latest_net_G_A."""
    letters = [_LETTERS[options["network"]], *(loaded.named_direction or "")[:1]]
    return "_".join(["latest_net", *letters])


def choose_family(network: nn.Module, wanted: str | None, usual: str | None = None) -> str:
    """Return the original project that the weights are written for: `wanted`, `usual`, or the first that fits.

    Raises:
        OriginalWeightsError: No project has such a network, or the wanted project has none.
    """
    description = FORMATS[scheme_of(network)]
    families: tuple[str, ...] = description.families
    if any(isinstance(module, nn.Dropout) for module in network.modules()):
        families = tuple(family for family in families if family != "pix2pixHD")  # pix2pixHD has no dropout
    if wanted is not None and wanted not in families:
        raise OriginalWeightsError(f"--family {wanted} has no such {description.role}. Use {' or '.join(families)}.")
    return wanted or (usual if usual in families else families[0])


def write_network(network: nn.Module, path: Path, family: str) -> None:
    """Write a state dict for an original project. First check that importing the state dict restores all weights.

    Raises:
        OriginalWeightsError: The project has no such network, or an import changes a weight.
    """
    has_instance_norm = any(isinstance(module, nn.InstanceNorm2d) for module in network.modules())
    has_biases = has_instance_norm or family not in _BIASED_BEFORE_INSTANCE_NORM
    weights = export_original(network, scheme_of(network), biases_before_norms=has_biases)
    imported = import_original(weights, {"biased_downs": getattr(network, "biased_downs", False)}).network.state_dict()
    for key, value in network.state_dict().items():
        if not torch.equal(imported[key], value):
            raise OriginalWeightsError(f"{path}: {key} would change in this format. Use --format safetensors.")
    write_weights_file(path, weights)
    logger.info("wrote %s: %d tensors in the format of %s", path, len(weights), family)


ORIGINAL = Format(
    content="weights file of an original project",
    suffix=".pth",
    write=write_original,
    options={
        "family": {"choices": FAMILIES, "help": "original: project to write for; default: the first that fits"},
        "network": {
            "choices": tuple(_LETTERS),
            "default": "generator",
            "help": "original: network of the run to write; default: generator",
        },
    },
    stem=default_stem,
    paths=generator_files,
)
