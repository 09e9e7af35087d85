"""Write a generator in another format.

python -m tools.export [--checkpoint RUN] --format pt2|onnx|safetensors|original [--output FILE]; see docs/export.md.
"""

import argparse
import importlib.util
import sys
from collections.abc import Sequence
from pathlib import Path

from inference.load import LoadedGenerator, find_checkpoint_file, load_generator
from tools.export.file import Dtype, export_program, export_weights
from tools.export.original import choose_family, original_files, write_original
from utils.cli import ArgumentParser, run_entry_point
from utils.errors import ConfigError
from utils.log import log_to_console, logger

FILE_NAMES = {
    "pt2": "generator.pt2",
    "onnx": "generator.onnx",
    "safetensors": "generator.safetensors",
    "original": "latest_net_G.pth",
}
PACKAGES = {"onnx": ("onnx", "onnxscript", "onnxruntime"), "safetensors": ("safetensors",)}


def parse_arguments(argv: Sequence[str]) -> argparse.Namespace:
    """The command line."""
    parser = ArgumentParser(description="Write a generator in another format; see docs/export.md.")
    add = parser.add_argument
    add("--checkpoint", type=Path, metavar="RUN_OR_FILE", help="run folder or checkpoint; default: newest in runs/")
    formats = "torch.export's program; ONNX; weights that test.py reads; the weight file of pix2pixHD or pix2pix"
    add("--format", choices=tuple(FILE_NAMES), required=True, help=formats)
    add("--output", type=Path, metavar="FILE", help="default: generator.FORMAT, latest_net_G.pth beside the checkpoint")
    existing_help = "a file that is there already; default: error"
    add("--existing", choices=("error", "replace"), default="error", help=existing_help)
    add("--weights", choices=("ema", "raw"), default="ema", help="ema: the moving average, where the run has one")
    dtypes = "of the weights and the arithmetic; inputs and outputs stay as they are; default: float32"
    add("--dtype", choices=("float32", "float16", "bfloat16"), help=dtypes)
    conditioning = (
        "pt2, onnx: one-hot labels, edges and ranges inside the file, which takes and gives 8-bit images (default), or "
        "outside, and it takes and gives the generator's tensors"
    )
    add("--conditioning", choices=("inside", "outside"), help=conditioning)
    add("--family", choices=("pix2pixHD", "pix2pix"), help="original: default: pix2pix where only that has the network")
    edges = "of a pix2pixHD file: its last input channel is the instances' edges, which the file does not tell"
    add("--instance-edges", action="store_true", help=edges)
    arguments = parser.parse_args(argv)
    is_program = arguments.format in ("pt2", "onnx")
    if arguments.format != "original" and arguments.output and arguments.output.suffix != f".{arguments.format}":
        parser.error(f"--output {arguments.output}: expected a name that ends in .{arguments.format}")
    if arguments.conditioning and not is_program:
        parser.error("--conditioning goes with --format pt2 and onnx")
    if arguments.dtype and arguments.format == "original":
        parser.error("--dtype: the originals' files are in float32; leave it out")
    if arguments.family and arguments.format != "original":
        parser.error("--family goes with --format original")
    if arguments.dtype == "bfloat16" and arguments.format == "onnx":
        parser.error("--dtype bfloat16: onnxruntime has no convolutions in it; take float16, or --format pt2")
    return arguments


def check_packages(file_format: str) -> None:
    """Raise ConfigError where a package is missing that a format needs."""
    missing = [name for name in PACKAGES.get(file_format, ()) if importlib.util.find_spec(name) is None]
    if missing:
        verb = "is" if len(missing) == 1 else "are"
        raise ConfigError(f'{", ".join(missing)} {verb} not installed: python -m pip install --editable ".[export]"')


def write_originals(trained: LoadedGenerator, output: Path, family: str | None) -> None:
    """Write the generator, and its encoder into a file of its own, in the format of pix2pixHD or pix2pix.

    Raises:
        OriginalWeightsError: the family has no such network.
    """
    files = original_files(trained.generator, output)
    families = {path: choose_family(network, family) for path, network in files.items()}
    for path, network in files.items():
        write_original(network, path, families[path])


def refuse_existing(path: Path) -> None:
    """Raise FileExistsError where something would be written over."""
    if path.exists():
        raise FileExistsError(17, "is there already; choose another --output, or --existing replace", str(path))


def main(argv: Sequence[str]) -> None:
    """Parse the command line and do what it says."""
    arguments = parse_arguments(argv)
    log_to_console(is_main=True)
    check_packages(arguments.format)
    file = find_checkpoint_file(arguments.checkpoint)
    trained = load_generator(file, has_instances=arguments.instance_edges, raw_weights=arguments.weights == "raw")
    logger.info("checkpoint   %s", file)
    output = arguments.output or file.with_name(FILE_NAMES[arguments.format])
    if arguments.existing == "error":
        for path in original_files(trained.generator, output) if arguments.format == "original" else [output]:
            refuse_existing(path)
    dtype: Dtype = arguments.dtype or "float32"
    match arguments.format:
        case "original":
            write_originals(trained, output, arguments.family)
        case "safetensors":
            export_weights(trained, output, dtype)
        case kind:
            export_program(trained, output, kind, dtype, as_images=arguments.conditioning != "outside")


if __name__ == "__main__":
    sys.exit(run_entry_point(main))
