"""Write a generator in another format: python -m tools.export --checkpoint RUN --format original [--output FILE]."""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

import torch
from torch import nn

from entry_point import run_entry_point
from models.feature_encoder import FeatureConditionedGenerator, FeatureEncoder
from models.global_generator import GlobalGenerator
from models.local_enhancer import LocalEnhancer
from models.original_names import OriginalWeightsError, Scheme
from models.original_weights import export_original, import_original
from models.unet_generator import UnetGenerator
from trained import find_checkpoint_file, load_trained
from utils.checkpoint import write_weights_file
from utils.run_folder import log_to_console, logger

SCHEMES: dict[type, Scheme] = {
    GlobalGenerator: "global",
    LocalEnhancer: "local",
    UnetGenerator: "unet",
    FeatureEncoder: "encoder",
}
FAMILIES: dict[Scheme, tuple[str, ...]] = {
    "encoder": ("pix2pixHD",),
    "global": ("pix2pixHD", "pix2pix"),
    "local": ("pix2pixHD",),
    "unet": ("pix2pix",),
}


def choose_family(generator: nn.Module, wanted: str | None) -> str:
    """The family that has this generator: with dropout pix2pix, otherwise pix2pixHD where both have it.

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
    """Write the state dict that the family would load, and check that it reads back the same.

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
            raise OriginalWeightsError(f"{path}: {key} does not read back as it was written")
    write_weights_file(path, weights)
    logger.info("wrote %s: %d tensors in the format of %s", path, len(weights), family)


def main(argv: Sequence[str]) -> None:
    """Parse the command line and do what it says."""
    parser = argparse.ArgumentParser(description="Write a generator in another format.")
    add = parser.add_argument
    add("--checkpoint", type=Path, metavar="RUN_OR_FILE", help="run folder or checkpoint; default: newest in runs/")
    add("--format", choices=("original",), required=True, help="original: the weight file of pix2pixHD or pix2pix")
    add("--family", choices=("pix2pixHD", "pix2pix"), help="default: pix2pix where only that has the network")
    add("--weights", choices=("ema", "raw"), default="ema", help="ema: the moving average, where the run has one")
    add("--output", type=Path, metavar="FILE", help="default: latest_net_G.pth beside the checkpoint")
    arguments = parser.parse_args(argv)
    log_to_console(is_main=True)
    trained = load_trained(find_checkpoint_file(arguments.checkpoint), raw_weights=arguments.weights == "raw")
    output = arguments.output or trained.file.with_name("latest_net_G.pth")
    files = {output: trained.generator}
    if isinstance(trained.generator, FeatureConditionedGenerator):  # the originals keep the encoder apart
        encoder_name = output.name.replace("_G.", "_E.") if "_G." in output.name else f"E_{output.name}"
        files = {
            output: trained.generator.generator,
            output.with_name(encoder_name): trained.generator.encoder,
        }
    for path in files:
        if path.exists():
            raise FileExistsError(17, "is there already; choose another --output", str(path))
    families = {path: choose_family(network, arguments.family) for path, network in files.items()}
    for path, network in files.items():
        write_original(network, path, families[path])


if __name__ == "__main__":
    sys.exit(run_entry_point(main))
