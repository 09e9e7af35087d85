"""Write a generator in another format.

python -m tools.export [--checkpoint RUN] --format onnx|html|safetensors|original [--output FILE]; see docs/export.md.
"""

import argparse
import errno
import importlib.util
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from configs.schema.data import DIRECTIONS
from inference.load import LoadedGenerator, load_from, load_generator
from inference.original_weights import OriginalInputs
from inference.sampling import encode_style
from models.latent_inputs import choose_style
from tools.export import FORMATS
from tools.export.card import model_card
from tools.export.format import CARD, Format
from utils.cli import ArgumentParser, run_entry_point
from utils.errors import ConfigError
from utils.log import log_to_console, logger


def parse_arguments(argv: Sequence[str]) -> argparse.Namespace:
    """Parse the command line; exit with an error if options do not go together."""
    parser = ArgumentParser(description="Write a generator in another format; see docs/export.md.")
    add = parser.add_argument
    add("--checkpoint", type=Path, metavar="RUN_OR_FILE", help="run folder or checkpoint; default: newest in runs/")
    direction_help = "of a run or folder of CycleGAN's, which has a generator for each direction; default: AtoB"
    add("--direction", choices=DIRECTIONS, help=direction_help)
    contents = "; ".join(f"{name}: {file_format.content}" for name, file_format in FORMATS.items())
    add("--format", choices=tuple(FORMATS), required=True, help=contents)
    add("--output", type=Path, metavar="PATH", help="default: generator.FORMAT, latest_net_G.pth beside the checkpoint")
    add("--existing", choices=("refuse", "replace"), default="refuse", help="an existing file; default: refuse")
    add("--weights", choices=("ema", "raw"), default="ema", help="ema: the moving average, if the run has one")
    edges = "for a file of pix2pixHD or SPADE: its last input channel holds instance edges, which it does not record"
    add("--instance-edges", action="store_true", help=edges)
    takers: dict[str, list[str]] = {}
    for name, file_format in FORMATS.items():
        for option, keywords in file_format.options.items():
            if option not in takers:
                add(f"--{option.replace('_', '-')}", **keywords)
            takers.setdefault(option, []).append(name)
    arguments = parser.parse_args(argv)
    kind, output, suffix = arguments.format, arguments.output, FORMATS[arguments.format].suffix
    for option, names in takers.items():
        if kind not in names and getattr(arguments, option) != parser.get_default(option):
            parser.error(f"--{option.replace('_', '-')} goes with --format {', '.join(names)}, not with {kind}")
    if output and not arguments.folder and output.suffix != suffix:
        parser.error(f"--output {output}: expected a name that ends in {suffix}")
    return arguments


def check_packages(file_format: Format) -> None:
    """Raise ConfigError if a package that a format needs is not installed."""
    missing = [name for name in file_format.packages if importlib.util.find_spec(name) is None]
    if missing:
        verb = "is" if len(missing) == 1 else "are"
        raise ConfigError(f'{", ".join(missing)} {verb} not installed: python -m pip install --editable ".[export]"')


def export(loaded: LoadedGenerator, file_format: Format, output: Path, options: Mapping[str, Any]) -> None:
    """Write a generator. options: Values of the format's options by name, with a style and the texts of the card."""
    texts = {name: options.get(name) for name in CARD}
    if style := options.get("style"):
        choose_style(loaded.generator, encode_style(loaded, style))
    loaded = replace(loaded, card=model_card(loaded, options.get("dtype", "float32"), texts))
    own = {name: value for name, value in options.items() if name not in (*CARD, "style")}
    file_format.write(loaded, output, **own)


def check_output(path: Path, *, is_folder: bool, may_exist: bool) -> None:
    """Raise FileExistsError if a file would be overwritten, or a folder is in the place of a file or the reverse."""
    if path.exists() and path.is_dir() != is_folder:
        what = "is a file, --folder writes a folder" if is_folder else "is a folder"
        raise FileExistsError(errno.EEXIST, f"{what}; choose another --output", str(path))
    if path.exists() and not may_exist:
        raise FileExistsError(errno.EEXIST, "already exists; choose another --output, or --existing replace", str(path))


def main(argv: Sequence[str]) -> None:
    """Export a generator according to the command line."""
    arguments = parse_arguments(argv)
    log_to_console(is_main=True)
    file_format, direction = FORMATS[arguments.format], arguments.direction
    check_packages(file_format)
    load = partial(
        load_generator,
        direction=direction,
        original=OriginalInputs(has_instances=arguments.instance_edges),
        raw_weights=arguments.weights == "raw",
    )
    file, loaded = load_from(arguments.checkpoint, load, direction=direction)
    logger.info("checkpoint   %s", file)
    if loaded.named_direction:
        logger.info("direction    %s", loaded.named_direction)
    options = {name: getattr(arguments, name) for name in file_format.options}
    suffix = "" if arguments.folder else file_format.suffix
    output = arguments.output or file.with_name(f"{file_format.stem(loaded, options)}{suffix}")
    for path in file_format.paths(loaded, output):
        check_output(path, is_folder=arguments.folder, may_exist=arguments.existing == "replace")
    export(loaded, file_format, output, options)


if __name__ == "__main__":
    sys.exit(run_entry_point(main))
