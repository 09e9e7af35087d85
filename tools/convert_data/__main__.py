"""Convert data sets between layouts, photographs to pairs, and label maps to ids and instances.

python -m tools.convert_data COMMAND FROM … TO [options]; --help lists the commands.
"""

import argparse
import shlex
import sys
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import get_args

from data.batch import DataError
from data.files.image_files import JPEG_QUALITY
from data.folder_store import SPLITS, VIDEO_SUFFIXES
from tools.convert_data.conversion import convert_all
from tools.convert_data.label_maps import colors_to_ids, to_instances
from tools.convert_data.layouts import to_folders, to_side_by_side
from tools.convert_data.photos import SUFFIXES, PhotoPairs, Source, from_photos, sources_of
from tools.convert_data.shards import index_shards, to_shards
from utils.cli import TO_MEND, ArgumentParser, run_entry_point, whole_number
from utils.limits import TARGET_SCALES
from utils.log import log_to_console, logger
from utils.text import counted

_COMMANDS = {
    "to-folders": "pix2pix's images, A in the left half and B in the right, to SPLIT_A and SPLIT_B",
    "to-side-by-side": "SPLIT_A and SPLIT_B to images of two halves",
    "from-photos": "photographs to pairs: sources made of them in SPLIT_A, the photographs in SPLIT_B",
    "source": "photographs to sources, as from-photos made them in the training pairs, for test.py to translate",
    "colors-to-ids": "label maps drawn in colours to ids, and a YAML file of the colours, TO.yaml",
    "to-instances": "label maps to instance maps: each connected part of a class is an instance",
    "to-shards": "the images of a data set to tar files with an index, which data.root can name like their folder",
    "index-shards": "an index of tar files that hold the folders of a data set",
}
_OF_SHARDS = ("to-shards", "index-shards")
_OF_SOURCES: dict[str, dict[str, float]] = {  # options, and their defaults by the sources that have a use for them
    "sigma": {"edges": 1.2, "noisy": 25.0},
    "factor": {"low_resolution": 4, "reduced": 4},
}
_LABEL_COLORS = {  # what --colors means to the commands for label maps
    "colors-to-ids": "YAML file as metrics.label_colors takes it, or cityscapes or cmp_facades; default: found in the "
    "maps",
    "to-instances": "colours of the classes where maps are drawn in them, as data.label_colors; default: maps hold ids",
}


def parse_arguments(argv: Sequence[str]) -> argparse.Namespace:
    """Parse the command line; raise DataError for a video."""
    parser = ArgumentParser(description="Convert data sets between layouts, photographs, and label maps.")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for name, text in _COMMANDS.items():
        _add_arguments(name, commands.add_parser(name, help=text, description=text).add_argument)
    if videos := [word for word in argv if Path(word).suffix.lower() in VIDEO_SUFFIXES and not Path(word).is_dir()]:
        command = f"mkdir PHOTOS; ffmpeg -i {shlex.quote(videos[0])} -vf fps=1 PHOTOS/%06d.png"
        raise DataError(f"{videos[0]}: is a video. Write its frames to a folder, and convert that: {command}")
    arguments = parser.parse_args(argv)
    if arguments.command == "from-photos":
        _check_photo_arguments(parser, arguments)
    return arguments


def _check_photo_arguments(parser: ArgumentParser, arguments: argparse.Namespace) -> None:
    """End the program where options of photographs contradict each other; put the defaults that depend on --source."""
    source = arguments.source
    if arguments.val + arguments.test >= 1:
        parser.error(f"--val {arguments.val} and --test {arguments.test} leave nothing to train on")
    for option, defaults in _OF_SOURCES.items():
        if getattr(arguments, option) is None:
            setattr(arguments, option, defaults.get(source, next(iter(defaults.values()))))
        elif source not in defaults:
            parser.error(f"--{option} has no effect with --source {source}, only with {' and '.join(defaults)}")
    if source == "reduced" and arguments.factor not in TARGET_SCALES:
        parser.error(f"--factor {arguments.factor}, expected 2 or 4 with --source reduced, as generator.scale")


def _add_arguments(command: str, add: Callable[..., argparse.Action]) -> None:
    if command in _OF_SHARDS:
        add("origin", type=Path, metavar="FOLDER", help="data set to read, or whose tar files are indexed")
        if command == "to-shards":
            add("target", type=Path, metavar="TO", help="folder to write to, outside FOLDER")
            size_help = "least size of a shard in MB, but for the last one; default: %(default)s"
            add("--shard-mb", type=_number(0.001, 1e6), default=512, metavar="MB", help=size_help)
        return
    existing_help = "existing files; default: refuse, before anything is written"
    add("--existing", choices=("refuse", "keep", "replace"), default="refuse", help=existing_help)
    if command == "source":
        add("photos", type=Path, nargs="+", metavar="PHOTO", help="photograph, or a folder of photographs")
        add("--like", type=Path, required=True, metavar="PAIRS", help="folder that from-photos has written")
        add("--output", type=Path, default=Path("sources"), metavar="FOLDER", help="default: %(default)s")
        return
    add("origin", type=Path, metavar="FROM", help="folder to read, with its subfolders")
    add("target", type=Path, metavar="TO", help="folder to write to, outside FROM")
    if command in _LABEL_COLORS:
        add("--colors", metavar="FILE", help=_LABEL_COLORS[command])
        if command == "to-instances":
            classes_help = "classes to divide, by id or by name in --colors, as car,rider; default: all"
            add("--classes", type=_names, default=(), metavar="LIST", help=classes_help)
        return
    format_help = f"jpeg: quality {JPEG_QUALITY}, colours at full resolution; default: %(default)s"
    default = "jpeg" if command == "from-photos" else "png"
    add("--format", choices=tuple(SUFFIXES), default=default, help=format_help)
    if command == "from-photos":
        _add_photo_arguments(add)


def _add_photo_arguments(add: Callable[..., argparse.Action]) -> None:
    add("--source", choices=get_args(Source), default="edges", help="source of the translation; default: edges")
    size_help = "largest length of the longer side, in pixels; larger photographs are resized; default: 1024"
    add("--size", type=whole_number(1, 100_000), default=1024, metavar="N", help=size_help)
    sigma_help = "edges: blur before their detection, in pixels; more leaves fewer lines; default: 1.2. noisy: the "
    sigma_help += "noise's standard deviation, in levels of 255; default: 25"
    add("--sigma", type=_number(0.3, 100), metavar="S", help=sigma_help)
    factor_help = "low_resolution, reduced: factor of the reduction; default: 4"
    add("--factor", type=whole_number(2, 1000), metavar="N", help=factor_help)
    for split in ("val", "test"):
        help_text = f"share of {split}, drawn by the names, so that it stays when others are added; default: 0.1"
        add(f"--{split}", type=_number(0, 1), default=0.1, metavar="SHARE", help=help_text)


def _names(text: str) -> tuple[str, ...]:
    names = tuple(name.strip() for name in text.strip("[]").split(","))
    if "" in names:
        raise argparse.ArgumentTypeError(f"{text!r}, expected classes, such as car,rider")
    return names


def _number(least: float, most: float) -> Callable[[str], float]:
    def parse(text: str) -> float:
        with suppress(ValueError):
            if least <= float(text) <= most:
                return float(text)
        raise argparse.ArgumentTypeError(f"{text!r} is not a number from {least:g} to {most:g}")

    return parse


def convert_to_pairs(arguments: argparse.Namespace, problems: list[str]) -> list[str]:
    """Write the pairs of the command line; return lines that sum them up.

    problems: gets those of what is left out.

    Raises:
        DataError: the origin cannot be converted, or files exist.
    """
    target: Path = arguments.target
    convert = {"to-folders": to_folders, "to-side-by-side": to_side_by_side}.get(arguments.command)
    if convert:
        conversions = convert(_origin(arguments), target, SUFFIXES[arguments.format], problems)
        counts = convert_all(conversions, arguments.existing, problems)
    else:
        counts = _convert_photos(arguments, problems)
    splits = sorted(counts) if convert else dict.fromkeys((*SPLITS, *counts))
    pairs_of_splits = ", ".join(f"{counted(counts[split], 'pair')} in {split}" for split in splits) or "no pair"
    lines = [f"{target}: {pairs_of_splits}"]
    if counts and not convert:
        like = shlex.quote(str(target))
        lines.append(f"the source of another photograph: python -m tools.convert_data source PHOTO --like {like}")
    return lines + ([f"to train on them: {training_command(arguments)}"] if counts["train"] else [])


def _convert_photos(arguments: argparse.Namespace, problems: list[str]) -> Counter[str]:
    """Write pairs of photographs, and their settings; return the number of pairs of each split."""
    target = arguments.target
    settings = arguments.source, arguments.size, arguments.sigma, arguments.factor
    pairs = PhotoPairs(*settings, SUFFIXES[arguments.format])
    shares = {"val": arguments.val, "test": arguments.test}
    counts = from_photos(_origin(arguments), target, arguments.existing, problems, pairs=pairs, shares=shares)
    if counts:
        pairs.write(target)
    return counts


def _origin(arguments: argparse.Namespace) -> Path:
    """Return the folder to read; raise DataError if the one to write to lies within it."""
    origin, target = arguments.origin, arguments.target
    if target.resolve().is_relative_to(origin.resolve()):
        raise DataError(f"{target}: lies within {origin}, and would be read too the next time; choose another TO")
    return Path(origin)


def convert_to_sources(arguments: argparse.Namespace, problems: list[str]) -> list[str]:
    """Write the sources of photographs; return lines that sum them up.

    problems: gets those of what is left out.

    Raises:
        DataError: the settings of the pairs are missing, a photograph has no place, or files exist.
    """
    pairs, output = PhotoPairs.read(arguments.like), arguments.output
    conversions = sources_of(arguments.photos, output, problems, pairs)
    n_sources = convert_all(conversions, arguments.existing, problems)[""]
    command = f"to translate them: python test.py --checkpoint RUN --input {shlex.quote(str(output))}"
    return [f"{output}: {counted(n_sources, 'source')}, made with {pairs.rule}"] + [command] * bool(n_sources)


def training_command(arguments: argparse.Namespace) -> str:
    """Return the command that trains on the result."""
    source = arguments.source if arguments.command == "from-photos" else arguments.command
    of_photos = {"grey": "colorization", "noisy": "denoising", "reduced": "super_resolution_x2"}
    others = {"to-side-by-side": "side_by_side_256x256", "to-folders": "paired_folders_256x256"}
    recipe = (of_photos | others).get(source, "own_pairs_small")
    settings = [f"data.root={arguments.target}", f"run.name={arguments.target.resolve().name}"]
    if source == "reduced" and arguments.factor == 4:  # targets as large as those of the recipe's factor, 2
        settings += ["generator.scale=4", "data.crop_width=32", "data.crop_height=32"]
    return shlex.join(["python", "train.py", "--config", f"configs/{recipe}.yaml", *settings])


def main(argv: Sequence[str]) -> None:
    """Convert a data set according to the command line; exit with code 2 if images could not be used."""
    arguments = parse_arguments(argv)
    log_to_console(is_main=True)
    problems, lines = list[str](), list[str]()
    match arguments.command:
        case "source":
            lines = convert_to_sources(arguments, problems)
        case "colors-to-ids":
            problems = colors_to_ids(_origin(arguments), arguments.target, arguments.colors, arguments.existing)
        case "to-instances":
            origin, target, classes = _origin(arguments), arguments.target, arguments.classes
            problems = to_instances(origin, target, classes, arguments.colors, arguments.existing)
        case "to-shards":
            lines = to_shards(_origin(arguments), arguments.target, int(arguments.shard_mb * 1e6))
        case "index-shards":
            lines = index_shards(arguments.origin)
        case _:
            lines = convert_to_pairs(arguments, problems)
    for problem in problems:
        logger.info("left out: %s", " ".join(problem.split()))
    for line in lines:
        logger.info("%s", line)
    if problems:
        raise SystemExit(TO_MEND)


if __name__ == "__main__":
    sys.exit(run_entry_point(main))
