"""Report all problems of a data set at once.

python -m tools.check_data --config configs/NAME.yaml [section.key=value ...]
python -m tools.check_data FOLDER|ADDRESS [--n-classes N] [section.key=value ...]

Without --n-classes label maps may hold any id, and those that occur are listed. --show N writes a sheet of training
samples as they are stored and as they are cropped and augmented.
"""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from configs.load import load_config
from configs.schema.data import check_data_root
from configs.schema.loss import LossConfig
from utils.cli import TO_MEND, ArgumentParser, OnlyOnce, run_entry_point, whole_number
from utils.data_root import data_root_problem
from utils.errors import ConfigError
from utils.log import log_to_console, logger
from utils.paths import expanded
from utils.signals import handling_ctrl_c, leave_at_once

MAX_SAMPLES = 200  # on a sheet, so that it can be opened
_SHEET = "augmented_samples.png"
_WEIGHTS = dict.fromkeys([*LossConfig().weights_of_images, "gradient_penalty", "r1"], 0) | {"adversarial": 1}
_LOSSES = [*(f"loss.{name}={weight}" for name, weight in _WEIGHTS.items()), "metrics.extra=[]"]
"""Settings that every data set fits: the data are checked, and not what a training would compute from them."""
_RECOGNIZED = {  # layouts of a folder that may be mistaken
    "side_by_side": "each image is taken to hold both sides; tools.convert_data from-photos makes pairs of photographs",
    "unpaired_folders": "the sides are taken for data.layout=unpaired_folders; images of a pair have the same name",
}


def parse_arguments(argv: Sequence[str]) -> argparse.Namespace:
    """Parse the command line."""
    parser = ArgumentParser(description="Report all problems of a data set at once.")
    add = parser.add_argument
    add("--config", type=Path, action=OnlyOnce, metavar="FILE", help="YAML file of the run that reads it")
    add("--n-classes", type=int, metavar="N", help="number of classes of label maps, for FOLDER; default: any")
    show_help = "write a sheet of N training samples, augmented as in training"
    add("--show", type=whole_number(1, MAX_SAMPLES), default=0, metavar="N", help=show_help)
    add("--sheet", type=Path, default=Path(_SHEET), metavar="FILE", help=f"of --show; default: {_SHEET}")
    add("settings", nargs="*", metavar="FOLDER|section.key=value", help="data set, or settings of --config")
    arguments = parser.parse_intermixed_args(argv)
    if not arguments.config and not arguments.settings:
        raise ConfigError("nothing to check; name a configuration with --config FILE, or a folder")
    return arguments


def main(argv: Sequence[str]) -> None:
    """Check a data set according to the command line; exit with code 2 if it has problems."""
    arguments = parse_arguments(argv)
    config = load_config(arguments.config, [*arguments.settings, *_LOSSES]) if arguments.config else None
    root = next(iter(arguments.settings), "")
    folder = expanded(root, "the data set")
    if config:
        check_data_root(config.data)
    elif "://" in root:
        raise ConfigError(data_root_problem(root))
    elif not folder.is_dir():
        what = "is a file, expected a folder" if folder.exists() else "no such folder"
        raise ConfigError(f"{folder}: {what}: name that of a data set")

    with handling_ctrl_c(leave_at_once):
        from tools.check_data.recognized_layout import data_set_in  # torch takes seconds
        from tools.check_data.report import check, splits_of_config

    if config:
        splits = splits_of_config(config)
    else:
        config, splits = data_set_in(folder, arguments.n_classes, [*arguments.settings[1:], *_LOSSES])
    log_to_console(is_main=True)
    if not arguments.config and config.data.layout in _RECOGNIZED:
        logger.info("%s", _RECOGNIZED[config.data.layout])
    if check(config, splits, n_shown=arguments.show, sheet=arguments.sheet):
        raise SystemExit(TO_MEND)


if __name__ == "__main__":
    sys.exit(run_entry_point(main))
