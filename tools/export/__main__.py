"""Export a trained generator to another file format.

python -m tools.export [--checkpoint RUN] --format onnx|html|safetensors|original [--output FILE]; see docs/export.md.
"""

import argparse
import errno
import importlib.util
import sys
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

from configs.schema.data import DIRECTIONS
from inference.load import load_from, load_generator
from inference.original_weights import OriginalInputs
from inference.requested_predictor import encode_style
from models.latent_inputs import choose_style
from tools.export import FORMATS
from tools.export.card import model_card
from tools.export.format import CARD, Format
from utils.cli import ArgumentParser, run_entry_point
from utils.errors import ConfigError
from utils.log import log_to_console, logger


def parse_arguments(argv: Sequence[str]) -> argparse.Namespace:
    """Parse the command line. Exit with an error if options contradict each other."""
    parser = ArgumentParser(description="Export a trained generator to another file format. See docs/export.md.")
    add = parser.add_argument
    add("--checkpoint", type=Path, metavar="RUN_OR_FILE", help="run folder or checkpoint; default: newest run in runs/")
    add("--direction", choices=DIRECTIONS, help="direction, if the run has two generators (CycleGAN); default: AtoB")
    contents = "; ".join(f"{name}: {file_format.content}" for name, file_format in FORMATS.items())
    add("--format", choices=tuple(FORMATS), required=True, help=contents)
    output_help = "default: next to the checkpoint, generator.SUFFIX (latest_net_G.pth with --format original)"
    add("--output", type=Path, metavar="PATH", help=output_help)
    add("--existing", choices=("refuse", "replace"), default="refuse", help="if the output exists; default: refuse")
    add("--weights", choices=("ema", "raw"), default="ema", help="ema: averaged weights, if any; default: ema")
    edges_help = "the last input channel holds instance edges; only for weights files of pix2pixHD and SPADE"
    add("--instance-edges", action="store_true", help=edges_help)
    options = {option: keywords for each in FORMATS.values() for option, keywords in each.options.items()}
    for option, keywords in options.items():
        add(f"--{option.replace('_', '-')}", **keywords)
    arguments = parser.parse_args(argv)
    chosen, output = FORMATS[arguments.format], arguments.output
    for option in sorted(options.keys() - chosen.options.keys()):
        if getattr(arguments, option) != parser.get_default(option):
            formats = ", ".join(name for name, each in FORMATS.items() if option in each.options)
            parser.error(f"--{option.replace('_', '-')} needs --format {formats}, not {arguments.format}")
    if output and not arguments.folder and output.suffix != chosen.suffix:
        parser.error(f"--output {output}: the name must end in {chosen.suffix}")
    return arguments


def check_packages(file_format: Format) -> None:
    """Raise ConfigError if a package that a format needs is not installed."""
    missing = [name for name in file_format.packages if importlib.util.find_spec(name) is None]
    if missing:
        raise ConfigError(f'not installed: {", ".join(missing)}. Run python -m pip install --editable ".[export]"')


def check_output(path: Path, *, is_folder: bool, may_exist: bool) -> None:
    """Raise FileExistsError if `path` exists although `may_exist` is false, or its type (file or folder) is wrong."""
    problem = ""
    if path.exists() and path.is_dir() != is_folder:
        problem = f"is {'a file, but --folder needs a folder' if is_folder else 'a folder'}. Choose another --output"
    elif path.exists() and not may_exist:
        problem = "already exists. Choose another --output, or add --existing replace"
    if problem:
        raise FileExistsError(errno.EEXIST, problem, str(path))


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
    if style := options.pop("style", None):
        choose_style(loaded.generator, encode_style(loaded, style))
    card = model_card(loaded, options.get("dtype", "float32"), {name: options.pop(name, None) for name in CARD})
    file_format.write(replace(loaded, card=card), output, **options)


if __name__ == "__main__":
    sys.exit(run_entry_point(main))
