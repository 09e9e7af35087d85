"""Write the instance features of a split as images, for runs with features.origin=precomputed.

python -m tools.precompute_features [--checkpoint RUN] [--split train] [--output DIR]
"""

import sys
from collections.abc import Sequence
from pathlib import Path

from configs import build
from data.conditioning import images_to_uint8
from data.files.image_files import write_png
from data.paired_folders import FEATURE_FOLDER
from tools.features.encoded_split import parse_with_split
from utils.cli import ArgumentParser, run_entry_point
from utils.errors import ConfigError
from utils.log import logger


def main(argv: Sequence[str]) -> None:
    """Write FOLDER/NAME.png for each sample of a split: its features as an RGB image, in the size of its target.

    Raises:
        ConfigError: the encoder has other than 3 features, the layout reads none, or the folder is not empty.
    """
    parser = ArgumentParser(description="Write the instance features of a split as images.")
    output_help = f"default: {FEATURE_FOLDER} in the data set's folder"
    parser.add_argument("--output", type=Path, metavar="DIR", help=output_help)
    arguments, split = parse_with_split(parser, argv)
    data = split.config.data
    if data.layout != "paired_folders":
        raise ConfigError(f"data.layout is {data.layout}, expected paired_folders, which alone reads feature maps")
    if split.encoder.n_features != 3:
        raise ConfigError(
            f"{split.file}: has {split.encoder.n_features} features, an image holds 3; train with features.n_channels=3"
        )
    usual = Path(data.root).expanduser() / FEATURE_FOLDER.replace("{split}", arguments.split)
    folder: Path = arguments.output or usual
    if folder.is_dir() and any(folder.iterdir()):
        raise ConfigError(f"{folder}: is not empty; choose another --output, or remove it")
    for sample in split:
        write_png(folder / f"{sample.name}.png", images_to_uint8(sample.features[0]))
    logger.info("wrote %d feature maps: %s", len(split), folder)
    if arguments.split == "train" and data.validation_split is None and build.has_split(data, "val"):
        logger.info("training also reads the split val; write its maps with --split val")


if __name__ == "__main__":
    sys.exit(run_entry_point(main))
