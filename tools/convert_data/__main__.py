"""Make data sets from photographs, from other data sets, or from tar files.

python -m tools.convert_data COMMAND FROM … TO [options]; --help lists the commands.
"""

import argparse
import shlex
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import get_args

from data.batch import DataError
from data.files.image_files import JPEG_QUALITY, count_other_files
from data.folder import SPLITS
from tools.convert_data.aligned_targets import align_targets
from tools.convert_data.conversion import convert_all, found_images
from tools.convert_data.drawn_volumes import write_drawn_volumes
from tools.convert_data.label_maps import colors_to_ids
from tools.convert_data.photos import SUFFIXES, PhotoPairs, Source, split_of
from tools.convert_data.shards import index_shards, to_shards
from utils.cli import USER_ERROR, ArgumentParser, run_entry_point, whole_number
from utils.log import log_to_console, logger
from utils.text import counted

_OF_SOURCES: dict[str, dict[str, float]] = {  # default of each option, for each --source that uses it
    "sigma": {"edges": 1.2, "noisy": 25.0},
    "factor": {"reduced": 4},
}


def parse_arguments(argv: Sequence[str]) -> argparse.Namespace:
    """Parse the command line. The attribute `run` is the function for the command."""
    parser = ArgumentParser(description="Make data sets from photographs, from other data sets, or from tar files.")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")

    def command(name: str, run: Callable[..., list[str]], text: str) -> Callable[..., argparse.Action]:
        added = commands.add_parser(name, help=text, description=text)
        added.set_defaults(run=run)
        return added.add_argument

    def folders(add: Callable[..., argparse.Action]) -> None:
        add("origin", type=Path, metavar="FROM", help="folder to read, with its subfolders")
        add("target", type=Path, metavar="TO", help="folder to write to, outside FROM")

    policies, existing_help = ("refuse", "keep", "replace"), "what to do if files exist; default: refuse to write"
    add = command("from-photos", _from_photos, "make pairs: sources in SPLIT_A, photographs in SPLIT_B")
    folders(add)
    add("--existing", choices=policies, default="refuse", help=existing_help)
    format_help = f"jpeg: quality {JPEG_QUALITY}, colours at full resolution; default: %(default)s"
    add("--format", choices=tuple(SUFFIXES), default="jpeg", help=format_help)
    add("--source", choices=get_args(Source), default="edges", help="source to make from a photograph; default: edges")
    size_help = "largest length of the longer side, in pixels; larger photographs are resized; default: 1024"
    add("--size", type=whole_number(1, 100_000), default=1024, metavar="N", help=size_help)
    sigma_help = "edges: blur before edge detection, in pixels; more blur leaves fewer lines; default: 1.2. noisy: "
    sigma_help += "standard deviation of the noise, for pixel values up to 255; default: 25"
    add("--sigma", type=_number(0.3, 100), metavar="S", help=sigma_help)
    add("--factor", type=int, choices=(2, 4), metavar="N", help="reduced: divisor of height and width; default: 4")
    for split in ("val", "test"):
        share_help = f"share of photographs for {split}; new photographs do not change earlier splits; default: 0.1"
        add(f"--{split}", type=_number(0, 1), default=0.1, metavar="SHARE", help=share_help)

    aligned = "copy a data set, and shift each target into alignment with its source"
    folders(command("align-targets", _align_targets, aligned))

    colors = "convert label maps drawn in colours to ids, and write the colours to TO.yaml"
    folders(add := command("colors-to-ids", _colors_to_ids, colors))
    add("--existing", choices=("refuse", "replace"), default="refuse", help=existing_help)
    colors_help = "cityscapes, cmp_facades, or a YAML file as for metrics.label_colors; default: colours in the maps"
    add("--colors", metavar="FILE", help=colors_help)

    folders(add := command("to-shards", _to_shards, "copy a data set into indexed tar files, which data.root can name"))
    size_help = "begin the next tar file when a tar file has this size in MB; default: %(default)s"
    add("--shard-mb", type=_number(0.001, 1e6), default=512, metavar="MB", help=size_help)
    text = "write the index of tar files that contain a data set"
    add = command("index-shards", lambda arguments, _: index_shards(arguments.origin), text)
    add("origin", type=Path, metavar="FOLDER", help="folder of the tar files")

    add = command("drawn-volumes", _drawn_volumes, "draw heads as MR and CT volumes, to try training on volumes")
    add("target", type=Path, metavar="TO", help="folder to write to; it must not exist")
    add("--patients", type=whole_number(3, 999), default=20, metavar="N", help="number of patients; default: 20")
    size_help = "height and width of the slices, in voxels; default: %(default)s"
    add("--size", type=whole_number(16, 512), default=96, metavar="N", help=size_help)

    arguments = parser.parse_args(argv)
    if arguments.command == "from-photos":
        _check_photo_arguments(parser, arguments)
    return arguments


def _check_photo_arguments(parser: ArgumentParser, arguments: argparse.Namespace) -> None:
    """Set the defaults that depend on --source. End the program if options contradict each other."""
    source = arguments.source
    if arguments.val + arguments.test >= 1:
        parser.error(f"--val {arguments.val} and --test {arguments.test} leave nothing to train on")
    for option, defaults in _OF_SOURCES.items():
        if getattr(arguments, option) is None:
            setattr(arguments, option, defaults.get(source, next(iter(defaults.values()))))
        elif source not in defaults:
            parser.error(f"--{option} has no effect with --source {source}, only with {' and '.join(defaults)}")


def _number(least: float, most: float) -> Callable[[str], float]:
    def parse(text: str) -> float:
        with suppress(ValueError):
            if least <= float(text) <= most:
                return float(text)
        raise argparse.ArgumentTypeError(f"{text!r} is not a number from {least:g} to {most:g}")

    return parse


def _from_photos(arguments: argparse.Namespace, problems: list[str]) -> list[str]:
    settings = arguments.source, arguments.size, arguments.sigma, arguments.factor
    pairs, target = PhotoPairs(*settings, SUFFIXES[arguments.format]), arguments.target
    photos = found_images(_origin(arguments), problems)
    if others := count_other_files([arguments.origin]):
        logger.info("ignored files of other formats: %s", others)
    splits = {name: split_of(name, {"val": arguments.val, "test": arguments.test}) for name in photos}
    pairs.check_present(target, splits)
    conversions = [pairs.conversion(path, name, target, splits[name]) for name, path in photos.items()]
    counts = convert_all(conversions, arguments.existing, problems)
    if not counts:
        return [f"{target}: no pair"]
    pairs_of_splits = ", ".join(f"{counted(counts[split], 'pair')} in {split}" for split in SPLITS)
    lines = [f"{target}: {pairs_of_splits}"]
    if not counts["train"]:
        return lines
    recipes = {"grey": "colorization", "noisy": "denoising", "reduced": "super_resolution_x2"}
    config = f"configs/{recipes.get(arguments.source, 'own_pairs_small')}.yaml"
    command = ["train.py", "--config", config, f"data.root={target}", f"run.name={target.resolve().name}"]
    if arguments.source == "reduced" and arguments.factor == 4:  # keep the target size of factor 2
        command += ["generator.scale=4", "data.crop_width=32", "data.crop_height=32"]
    return [*lines, f"to train on them: python {shlex.join(command)}"]


def _align_targets(arguments: argparse.Namespace, _: list[str]) -> list[str]:
    return align_targets(_origin(arguments), arguments.target)


def _colors_to_ids(arguments: argparse.Namespace, problems: list[str]) -> list[str]:
    replaces = arguments.existing == "replace"
    return colors_to_ids(_origin(arguments), arguments.target, arguments.colors, replaces=replaces, problems=problems)


def _to_shards(arguments: argparse.Namespace, _: list[str]) -> list[str]:
    return to_shards(_origin(arguments), arguments.target, int(arguments.shard_mb * 1e6))


def _drawn_volumes(arguments: argparse.Namespace, _: list[str]) -> list[str]:
    return write_drawn_volumes(arguments.target, arguments.patients, arguments.size)


def _origin(arguments: argparse.Namespace) -> Path:
    """Return the folder to read. Raise DataError if it contains the folder to write to."""
    origin, target = arguments.origin, arguments.target
    if target.resolve().is_relative_to(origin.resolve()):
        raise DataError(f"{target}: is within {origin}. Choose a TO outside FROM")
    return Path(origin)


def main(argv: Sequence[str]) -> None:
    """Run the command that `argv` names. Exit with code 2 if some images could not be used."""
    arguments = parse_arguments(argv)
    log_to_console(is_main=True)
    problems = list[str]()
    lines = arguments.run(arguments, problems)
    for problem in problems:
        logger.info("left out: %s", " ".join(problem.split()))
    for line in lines:
        logger.info("%s", line)
    if problems:
        raise SystemExit(USER_ERROR)


if __name__ == "__main__":
    sys.exit(run_entry_point(main))
