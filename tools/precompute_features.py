"""Write the instance features of a split as images, for runs with features.origin=precomputed.

python -m tools.precompute_features [--checkpoint RUN] [--split train] [--output DIR]
"""

import argparse
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import torch
from torch import Tensor

from configs import build
from configs.load import load_config
from configs.schema import Config
from configs.splits import has_split, open_split
from data.batch import Batch
from data.conditioning import images_to_uint8
from data.files.image_files import write_png
from data.folder import visible_entries
from data.layout import Layout
from data.loader import read_fixed
from data.paired_folders import FEATURE_FOLDER
from inference.load import load_from, load_generator, load_network
from models.instance_features import FeatureConditionedGenerator, FeatureEncoder
from models.originals.format import FileRole, OriginalWeightsError
from utils.cli import ArgumentParser, run_entry_point
from utils.device import allow_tf32, choose_device
from utils.errors import ConfigError
from utils.files import expanded
from utils.log import log_to_console, logger


@dataclass(frozen=True)
class EncodedSample:
    """The features of one image, (1, C, H, W) in [-1, 1], and its classes and regions, (1, 1, H, W) integer ids."""

    name: str
    features: Tensor
    classes: Tensor
    regions: Tensor


@dataclass(frozen=True)
class EncodedSplit:
    """A split of a data set, with a feature encoder. Iterate over this object to encode each sample.

    file: Checkpoint or weights file of the encoder.
    step: Training step of the encoder, or None if `file` records no step.
    """

    file: Path
    step: int | None
    config: Config
    layout: Layout
    encoder: FeatureEncoder

    def __iter__(self) -> Iterator[EncodedSample]:
        preprocessing, conditioning = build.build_preprocessing(self.config), build.data_facts(self.config).conditioning
        device = next(self.encoder.parameters()).device
        for index in range(len(self.layout)):
            batch = Batch.of([read_fixed(self.layout, preprocessing, index)]).to(device)
            regions = conditioning.region_map(batch)
            with torch.inference_mode():
                features = self.encoder(conditioning.target(batch), regions)
            classes = batch.source if conditioning.n_classes else torch.zeros_like(regions)
            yield EncodedSample(batch.names[0], features, classes, regions)


def parse_with_split(parser: argparse.ArgumentParser, argv: Sequence[str]) -> tuple[argparse.Namespace, EncodedSplit]:
    """Add options for a split and an encoder to `parser`, parse the command line, and open the split.

    Raises:
        UserError: A file cannot be read, or the checkpoint has no encoder.
    """
    add, checkpoint_help = parser.add_argument, "run with a feature encoder, or pix2pixHD's latest_net_E.pth"
    add("--checkpoint", type=Path, metavar="RUN_OR_FILE", help=f"{checkpoint_help}; default: newest run in runs/")
    add("--config", type=Path, metavar="FILE", help="settings of the data set, if the checkpoint has no settings")
    add("--split", default="train", metavar="NAME", help="default: train")
    add("--device", choices=("auto", "cpu", "cuda"), default="auto")
    add("overrides", nargs="*", metavar="section.key=value", help="settings that override the checkpoint or --config")
    arguments = parser.parse_intermixed_args(argv)
    log_to_console(is_main=True)
    network: FileRole = "encoder" if arguments.config else "generator"
    _, split = load_from(arguments.checkpoint, partial(_open_split, arguments), network)
    return arguments, split


def _open_split(arguments: argparse.Namespace, file: Path) -> EncodedSplit:
    if arguments.config is None:
        try:
            loaded = load_generator(file, arguments.overrides)
        except OriginalWeightsError as error:
            raise ConfigError(f"{file}: records no data set. Add --config FILE.") from error
        if not isinstance(loaded.generator, FeatureConditionedGenerator):
            raise ConfigError(f"{file}: its generator has no feature encoder. Choose another --checkpoint.")
        encoder, config, step = loaded.generator.encoder, loaded.config, loaded.step
    else:
        network = load_network(file, "encoder")
        if not isinstance(network, FeatureEncoder):
            raise ConfigError(f"{file}: is no encoder of instance features. Choose another --checkpoint.")
        shape = [f"features.n_channels={network.n_features}", f"features.n_downsamplings={network.n_downsamplings}"]
        shape += [f"data.target_channels={network.in_channels}", "features.origin=encoded"]
        shape += ["generator.name=global", "generator.n_downsamplings=1"]
        encoder, config, step = network, load_config(arguments.config, [*arguments.overrides, *shape]), None
    encoder = encoder.to(choose_device(arguments.device, option="--device ")).eval()
    allow_tf32(False)
    return EncodedSplit(file, step, config, open_split(config, arguments.split, needs_targets=True), encoder)


def main(argv: Sequence[str]) -> None:
    """Write the features of each sample of a split to DIR/NAME.png, as an RGB image of the target's size."""
    parser = ArgumentParser(description="Write the instance features of a split as images.")
    parser.add_argument("--output", type=Path, metavar="DIR", help=f"default: {FEATURE_FOLDER} in data.root")
    arguments, split = parse_with_split(parser, argv)
    data, n_features = split.config.data, split.encoder.n_features
    if data.layout != "paired_folders":
        raise ConfigError(f"data.layout={data.layout} reads no feature maps. Set data.layout=paired_folders.")
    if n_features != 3:
        raise ConfigError(f"{split.file}: has {n_features} features, but an image holds 3. Set features.n_channels=3.")
    usual = expanded(data.root, "data.root") / FEATURE_FOLDER.replace("{split}", arguments.split)
    folder: Path = arguments.output or usual
    if folder.is_dir() and visible_entries(folder):
        raise ConfigError(f"{folder}: is not empty. Choose another --output, or delete this folder.")
    for sample in split:
        write_png(folder / f"{sample.name}.png", images_to_uint8(sample.features[0]))
    logger.info("wrote %d feature maps: %s", len(split.layout), folder)
    if arguments.split == "train" and data.validation_split is None and has_split(split.config, "val"):
        logger.info("training also reads the split val. Run this tool again with --split val.")


if __name__ == "__main__":
    sys.exit(run_entry_point(main))
