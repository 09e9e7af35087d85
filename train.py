"""Train a GAN that translates images: python train.py --config configs/NAME.yaml [section.key=value ...]."""

import sys
from collections.abc import Sequence
from pathlib import Path

from utils.cli import ArgumentParser, run_entry_point
from utils.signals import handling_ctrl_c, leave_at_once


def main(argv: Sequence[str]) -> None:
    """Parse the command line, then train or run the chosen check."""
    parser = ArgumentParser(description="Train a GAN that translates images.")
    config_help = "YAML file, or the name of a recipe in configs/"
    parser.add_argument("--config", type=Path, required=True, help=config_help)
    parser.add_argument(
        "--resume",
        default="auto",
        metavar="auto|never|PATH",
        help="auto: resume the run's latest checkpoint; never: start a new run; PATH: resume this checkpoint or run",
    )
    changed_help = "if the data set has changed since the checkpoint, resume from the next epoch"
    parser.add_argument("--accept-changed-data", action="store_true", help=changed_help)
    parser.add_argument("--print-config", action="store_true", help="print the resolved configuration and stop")
    parser.add_argument("--dry-run", action="store_true", help="build everything, check the data, print the plan")
    smoke_help = "train two steps, validate, save a checkpoint and resume for one step, in a temporary folder"
    parser.add_argument("--smoke", action="store_true", help=smoke_help)
    parser.add_argument("overrides", nargs="*", metavar="section.key=value", help="settings that override the file")
    arguments = parser.parse_intermixed_args(argv)

    with handling_ctrl_c(leave_at_once):
        from configs.load import (  # import only after the command line is parsed
            base_line,
            config_of,
            config_to_yaml,
            read_recipe,
        )

        recipe = read_recipe(arguments.config)
        config = config_of(recipe, arguments.overrides)  # imports torch, which takes seconds
    if arguments.print_config:
        sys.stdout.write(base_line(recipe) + config_to_yaml(config))
        return

    with handling_ctrl_c(leave_at_once):
        from training.launch import smoke, train
        from training.report.plan import dry_run
        from training.resume import ResumeOptions

    if arguments.dry_run:
        dry_run(config, ResumeOptions(arguments.resume, arguments.accept_changed_data))
    elif arguments.smoke:
        smoke(config)
    else:
        train(config, resume=arguments.resume, accepts_changed_data=arguments.accept_changed_data)


if __name__ == "__main__":
    sys.exit(run_entry_point(main))
