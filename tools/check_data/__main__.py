"""Report all problems of a data set at once.

python -m tools.check_data --config configs/NAME.yaml [section.key=value ...]
python -m tools.check_data FOLDER [--n-classes N] [section.key=value ...]

Without --n-classes, label maps can contain any id. --show N writes a picture of N training samples, before and
after augmentation.
"""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from configs.load import load_config
from configs.schema.loss import LossConfig
from utils.cli import USER_ERROR, ArgumentParser, run_entry_point, whole_number
from utils.errors import ConfigError
from utils.files import data_root_problem, expanded
from utils.log import log_to_console, logger
from utils.signals import handling_ctrl_c, leave_at_once

MAX_SAMPLES = 200  # image viewers cannot open larger sheets
_SHEET = Path("augmented_samples.png")
_WEIGHTS = dict.fromkeys({**LossConfig().weights_of_images, **LossConfig().penalties}, 0) | {"adversarial": 1}
_WEIGHTS.pop("outside_mask")  # keep this weight, which decides whether label maps are read
_LOSSES = [*(f"loss.{name}={weight}" for name, weight in _WEIGHTS.items()), "metrics.extra=[]"]
"""Settings of losses that fit every data set, because this tool checks only the data."""
_RECOGNIZED = {  # messages for layouts that may be recognized by mistake
    "side_by_side": "assuming that each image holds a source and a target. To make pairs from photographs, use "
    "tools.convert_data from-photos",
    "unpaired_folders": "assuming data.layout=unpaired_folders. For pairs, give source and target the same name",
    "unpaired_volumes": "assuming data.layout=unpaired_volumes. For pairs, give source and target the same name",
}


def parse_arguments(argv: Sequence[str]) -> argparse.Namespace:
    """Parse the command line."""
    parser = ArgumentParser(description="Report all problems of a data set at once.")
    add = parser.add_argument
    add("--config", type=Path, metavar="FILE", help="YAML configuration that names the data set")
    add("--n-classes", type=int, metavar="N", help="number of classes of label maps, for FOLDER; default: any")
    show_help = "write a picture of N training samples, before and after augmentation"
    add("--show", type=whole_number(1, MAX_SAMPLES), default=0, metavar="N", help=show_help)
    add("--sheet", type=Path, default=_SHEET, metavar="FILE", help="picture file of --show; default: %(default)s")
    add("settings", nargs="*", metavar="FOLDER|section.key=value", help="folder of a data set, and settings")
    arguments = parser.parse_intermixed_args(argv)
    if not arguments.config and not arguments.settings:
        raise ConfigError("nothing to check; name a configuration with --config FILE, or a folder")
    return arguments


def main(argv: Sequence[str]) -> None:
    """Check the data set that `argv` names. Exit with code 2 if it has problems."""
    arguments = parse_arguments(argv)
    config = load_config(arguments.config, [*arguments.settings, *_LOSSES]) if arguments.config else None
    root = next(iter(arguments.settings), "")
    folder = expanded(root, "the data set")
    if not config and "://" in root:
        raise ConfigError(data_root_problem(root))
    if not config and not folder.is_dir():
        raise ConfigError(f"{folder}: no such folder. Name the folder of a data set")

    with handling_ctrl_c(leave_at_once):
        from tools.check_data.recognized_layout import data_set_in, volumes_in  # importing torch takes seconds
        from tools.check_data.report import check, splits_of_config

    log_to_console(is_main=True)
    if config:
        splits = splits_of_config(config)
    else:
        settings = [*arguments.settings[1:], *_LOSSES]
        config, splits = volumes_in(folder, settings) or data_set_in(folder, arguments.n_classes, settings)
    if not arguments.config and config.data.layout in _RECOGNIZED:
        logger.info("%s", _RECOGNIZED[config.data.layout])
    if check(config, splits, n_shown=arguments.show, sheet=arguments.sheet):
        raise SystemExit(USER_ERROR)


if __name__ == "__main__":
    sys.exit(run_entry_point(main))
