"""Write a generator in another format.

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

from configs.load import config_from_dict
from configs.schema.sides import DIRECTIONS
from inference.load import LoadedGenerator, load_from, load_generator, load_network
from inference.original_weights import OriginalInputs
from inference.sampling import encode_style
from models.latent_inputs import choose_style
from models.originals.format import FAMILIES, FileRole, OriginalWeightsError
from tools.export.card import model_card
from tools.export.file import Dtype, export_program, export_weights
from tools.export.html import export_page
from tools.export.original_weights import choose_family, original_files, write_original
from tools.export.web_runtime import PACKAGE
from utils.checkpoint import is_training_state, read_weights_file
from utils.cli import ArgumentParser, run_entry_point, whole_number
from utils.errors import ConfigError
from utils.log import log_to_console, logger

FILE_NAMES = {kind: f"generator.{kind}" for kind in ("onnx", "html", "safetensors")}
FILE_NAMES |= {"original": "latest_net_G.pth"}
FOLDER_NAME = "generator_page"  # of --format html --folder
N_SAMPLES = 4
_FOR_ONNX = ("onnx", "onnxscript", "onnxruntime")
OTHER_NETWORKS: dict[FileRole, str] = {"discriminator": "D", "projection": "F"}  # in names of the originals' files
FORMATS_OF_OPTIONS = {  # of those options that not all formats have
    "conditioning": ("onnx",),
    "style": ("onnx", "html"),
    **dict.fromkeys(("family", "network"), ("original",)),
    **dict.fromkeys(("folder", "samples", "split", "web_runtime"), ("html",)),
    **dict.fromkeys(("dtype", "title", "description", "license"), ("onnx", "html", "safetensors")),
}
PACKAGES = {"onnx": _FOR_ONNX, "html": _FOR_ONNX, "safetensors": ("safetensors",)}


def parse_arguments(argv: Sequence[str]) -> argparse.Namespace:
    """Parse the command line; exit with an error if options do not go together."""
    parser = ArgumentParser(description="Write a generator in another format; see docs/export.md.")
    add = parser.add_argument
    add("--checkpoint", type=Path, metavar="RUN_OR_FILE", help="run folder or checkpoint; default: newest in runs/")
    direction_help = "of a run or folder of CycleGAN's, which has a generator for each direction; default: AtoB"
    add("--direction", choices=DIRECTIONS, help=direction_help)
    formats = "program in ONNX; a page to draw on; weights that test.py reads; the file of an original"
    add("--format", choices=tuple(FILE_NAMES), required=True, help=formats)
    add("--output", type=Path, metavar="PATH", help="default: generator.FORMAT, latest_net_G.pth beside the checkpoint")
    add("--existing", choices=("refuse", "replace"), default="refuse", help="an existing file; default: refuse")
    add("--weights", choices=("ema", "raw"), default="ema", help="ema: the moving average, if the run has one")
    dtypes = "of weights and arithmetic; inputs and outputs keep their types; default: float32"
    add("--dtype", choices=("float32", "float16", "bfloat16"), help=dtypes)
    conditioning = (
        "onnx: inside (default): inputs and outputs are images, the file makes one-hot labels, edges and ranges; "
        "outside: inputs and outputs are the generator's tensors"
    )
    add("--conditioning", choices=("inside", "outside"), help=conditioning)
    add("--family", choices=FAMILIES, help="original; default: the first that has the network")
    network_help = "original: a run's discriminator or projection, to latest_net_D….pth or _F.pth; default: generator"
    add("--network", choices=("generator", *OTHER_NETWORKS), default="generator", help=network_help)
    edges = "for a file of pix2pixHD or SPADE: its last input channel holds instance edges, which it does not record"
    add("--instance-edges", action="store_true", help=edges)
    style_help = "onnx, html: translate in the style of an image; default: the mean of all styles"
    add("--style", type=Path, metavar="IMAGE", help=style_help)
    folder_help = f"html: a folder of a page and its files for a web server, default {FOLDER_NAME}; for large networks"
    for name, what in (("title", "name"), ("description", "what it does"), ("license", "licence, as cc-by-4.0")):
        add(f"--{name}", metavar="TEXT", help=f"{what} of the network in the file's model card; see docs/export.md")
    add("--folder", action="store_true", help=folder_help)
    samples_help = f"html: samples of --split that the page carries; default: {N_SAMPLES}"
    add("--samples", type=whole_number(0), metavar="N", help=samples_help)
    add("--split", metavar="NAME", help="html: split of the data set; default: the test split")
    add("--web-runtime", type=Path, metavar="PATH", help=f"html: archive or folder of {PACKAGE}; default: download it")
    arguments = parser.parse_args(argv)
    _check_together(parser, arguments)
    return arguments


def _check_together(parser: argparse.ArgumentParser, arguments: argparse.Namespace) -> None:
    """Exit with an error if options do not go together."""
    kind, output = arguments.format, arguments.output
    for name, formats in FORMATS_OF_OPTIONS.items():
        if kind not in formats and getattr(arguments, name) != parser.get_default(name):
            parser.error(f"--{name.replace('_', '-')} goes with --format {', '.join(formats)}, not with {kind}")
    if output and kind != "original" and not arguments.folder and output.suffix != f".{kind}":
        parser.error(f"--output {output}: expected a name that ends in .{kind}")
    if arguments.dtype == "bfloat16" and kind in ("onnx", "html"):
        parser.error("--dtype bfloat16: onnxruntime has no convolutions in it; use float16")


def check_packages(file_format: str) -> None:
    """Raise ConfigError if a package that a format needs is not installed."""
    missing = [name for name in PACKAGES.get(file_format, ()) if importlib.util.find_spec(name) is None]
    if missing:
        verb = "is" if len(missing) == 1 else "are"
        raise ConfigError(f'{", ".join(missing)} {verb} not installed: python -m pip install --editable ".[export]"')


def write_originals(loaded: LoadedGenerator, output: Path, family: str | None) -> None:
    """Write the generator, and its encoder to a second file, in the format of an original.

    Raises:
        OriginalWeightsError: the family has no such network.
    """
    for key, usual in (("scale", 1), ("output", "tanh")):
        value = getattr(loaded.config.generator, key)
        if value != usual:
            raise OriginalWeightsError(
                f"{loaded.file}: no original has a network with generator.{key}={value}. Use --format safetensors."
            )
    files = original_files(loaded.generator, output)
    likely: str | None = loaded.config.method.declaration.original
    if loaded.step is None and loaded.file.suffix == ".pth":
        weights = read_weights_file(loaded.file, checks_content=False)
        has_biases = any(key.removeprefix("module.") == "model.1.bias" for key in weights)
        likely = None if has_biases else "pix2pix"  # pix2pixHD's files have biases before batch norm
    families = {path: choose_family(network, family, likely) for path, network in files.items()}
    for path, network in files.items():
        write_original(network, path, families[path])


def check_output(path: Path, *, is_folder: bool, may_exist: bool) -> None:
    """Raise FileExistsError if a file would be overwritten, or a folder is in the place of a file or the reverse."""
    if not path.exists():
        return
    if path.is_dir() != is_folder:
        what = "is a file, --folder writes a folder" if is_folder else "is a folder"
        raise FileExistsError(errno.EEXIST, f"{what}; choose another --output", str(path))
    if not may_exist:
        raise FileExistsError(errno.EEXIST, "already exists; choose another --output, or --existing replace", str(path))


def _default_name(arguments: argparse.Namespace, loaded: LoadedGenerator) -> str:
    """Return the name of the output, with the direction where there is a generator of each."""
    name, direction = Path(FOLDER_NAME if arguments.folder else FILE_NAMES[arguments.format]), loaded.named_direction
    if direction is None:
        return name.name
    end = direction if arguments.format != "original" else direction[0]  # CycleGAN's G_A translates A
    return f"{name.stem}_{end}{name.suffix}"


def main(argv: Sequence[str]) -> None:
    """Export a generator according to the command line."""
    arguments = parse_arguments(argv)
    log_to_console(is_main=True)
    check_packages(arguments.format)
    may_exist = arguments.existing == "replace"
    if arguments.network != "generator":
        role, way = arguments.network, arguments.direction
        load_other = partial(load_network, role=role, direction=way)
        file, network = load_from(arguments.checkpoint, load_other, role, way)
        state = read_weights_file(file, checks_content=False)
        method = config_from_dict(state["config"], str(file)).method if is_training_state(state) else None
        if method and role == "discriminator" and len(method.translators) > 1:
            way = way or method.default_direction
            logger.info("direction    %s", way)
        letter = f"_{way[0]}" if way else ""  # CycleGAN's D_A judges what G_A makes
        path = arguments.output or file.with_name(f"latest_net_{OTHER_NETWORKS[role]}{letter}.pth")
        check_output(path, is_folder=False, may_exist=may_exist)
        usual = method.declaration.original if method else None
        write_original(network, path, choose_family(network, arguments.family, usual))
        return
    load = partial(
        load_generator,
        direction=arguments.direction,
        original=OriginalInputs(has_instances=arguments.instance_edges),
        raw_weights=arguments.weights == "raw",
    )
    file, loaded = load_from(arguments.checkpoint, load, direction=arguments.direction)
    logger.info("checkpoint   %s", file)
    if loaded.named_direction:
        logger.info("direction    %s", loaded.named_direction)
    if style := encode_style(loaded, arguments.style):
        choose_style(loaded.generator, style.style)
    output = arguments.output or file.with_name(_default_name(arguments, loaded))
    for path in original_files(loaded.generator, output) if arguments.format == "original" else [output]:
        check_output(path, is_folder=arguments.folder, may_exist=may_exist)
    dtype: Dtype = arguments.dtype or "float32"
    given = {"title": arguments.title, "description": arguments.description, "license": arguments.license}
    loaded = replace(loaded, card=model_card(loaded, dtype, given))
    match arguments.format:
        case "original":
            write_originals(loaded, output, arguments.family)
        case "safetensors":
            export_weights(loaded, output, dtype)
        case "html":
            export_page(
                loaded,
                output,
                dtype,
                in_folder=arguments.folder,
                n_samples=N_SAMPLES if arguments.samples is None else arguments.samples,
                split=arguments.split,
                web_runtime=arguments.web_runtime,
            )
        case "onnx":
            export_program(loaded, output, dtype, as_images=arguments.conditioning != "outside")


if __name__ == "__main__":
    sys.exit(run_entry_point(main))
