"""Write a generator in another format: python -m tools.export --checkpoint RUN --format original [--output FILE]."""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

import torch

import build
from models.global_generator import GlobalGenerator
from models.local_enhancer import LocalEnhancer
from models.original_names import OriginalWeightsError, Scheme
from models.original_weights import export_original, import_original
from models.unet_generator import UnetGenerator
from trained import Trained, find_checkpoint_file, load_trained
from utils.entry_point import run_entry_point
from utils.run_folder import log_to_console, logger

SCHEMES: dict[type, Scheme] = {GlobalGenerator: "global", LocalEnhancer: "local", UnetGenerator: "unet"}


def write_original(trained: Trained, path: Path, family: str) -> None:
    """Write the state dict that pix2pixHD or pix2pix would load, and check that it reads back the same.

    Raises:
        OriginalWeightsError: the family has no such network.
    """
    generator = trained.generator
    scheme = SCHEMES[type(generator)]
    # pix2pixHD has a bias before every norm, pix2pix only before instance norm
    has_biases = family == "pix2pixHD" or trained.config.generator.norm == "instance"
    weights = export_original(generator, scheme, biases_before_norms=has_biases)
    again = import_original(weights).network.state_dict()
    for key, value in generator.state_dict().items():
        if not torch.equal(again[key], value):
            raise OriginalWeightsError(f"{path}: {key} does not read back as it was written")
    path.parent.mkdir(parents=True, exist_ok=True)
    torch.save(weights, path)
    logger.info("wrote %s: %d tensors in the format of %s", path, len(weights), family)


def main(argv: Sequence[str]) -> None:
    """Parse the command line and do what it says."""
    parser = argparse.ArgumentParser(description="Write a generator in another format.")
    add = parser.add_argument
    add("--checkpoint", type=Path, metavar="RUN_OR_FILE", help="run folder or checkpoint; default: newest in runs/")
    add("--format", choices=("original",), required=True, help="original: the weight file of pix2pixHD or pix2pix")
    add("--family", choices=("pix2pixHD", "pix2pix"), help="default: pix2pix for a U-Net, otherwise pix2pixHD")
    add("--output", type=Path, metavar="FILE", help="default: latest_net_G.pth beside the checkpoint")
    arguments = parser.parse_args(argv)
    log_to_console(is_main=True)
    trained = load_trained(find_checkpoint_file(arguments.checkpoint))
    default_family = "pix2pix" if trained.config.generator.name == "unet" else "pix2pixHD"
    output = arguments.output or trained.file.with_name("latest_net_G.pth")
    write_original(trained, output, arguments.family or default_family)


if __name__ == "__main__":
    sys.exit(run_entry_point(main, build.USER_ERRORS))
