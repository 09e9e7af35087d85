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
from tools.export.original_weights import choose_family, original_files, write_original
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
    """Parse the command line; exit with an error if options do not go together."""
    parser = ArgumentParser(description="Write a generator in another format; see docs/export.md.")
    add = parser.add_argument
    add("--checkpoint", type=Path, metavar="RUN_OR_FILE", help="run folder or checkpoint; default: newest in runs/")
    formats = "program of torch.export; ONNX; weights that test.py reads; weight file of pix2pixHD or pix2pix"
    add("--format", choices=tuple(FILE_NAMES), required=True, help=formats)
    add("--output", type=Path, metavar="FILE", help="default: generator.FORMAT, latest_net_G.pth beside the checkpoint")
    existing_help = "an existing file; default: error"
    add("--existing", choices=("error", "replace"), default="error", help=existing_help)
    add("--weights", choices=("ema", "raw"), default="ema", help="ema: the moving average, if the run has one")
    dtypes = "of weights and arithmetic; inputs and outputs keep their types; default: float32"
    add("--dtype", choices=("float32", "float16", "bfloat16"), help=dtypes)
    conditioning = (
        "pt2, onnx: inside (default): inputs and outputs are 8-bit images, the file makes one-hot labels and edges; "
        "outside: inputs and outputs are the generator's tensors"
    )
    add("--conditioning", choices=("inside", "outside"), help=conditioning)
    add("--family", choices=("pix2pixHD", "pix2pix"), help="original; default: pix2pixHD if it has the network")
    edges = "for a file of pix2pixHD: its last input channel holds instance edges, which the file does not record"
    add("--instance-edges", action="store_true", help=edges)
    arguments = parser.parse_args(argv)
    is_program = arguments.format in ("pt2", "onnx")
    if arguments.format != "original" and arguments.output and arguments.output.suffix != f".{arguments.format}":
        parser.error(f"--output {arguments.output}: expected a name that ends in .{arguments.format}")
    if arguments.conditioning and not is_program:
        parser.error("--conditioning goes with --format pt2 and onnx")
    if arguments.dtype and arguments.format == "original":
        parser.error("--dtype: the originals' files are in float32; omit it")
    if arguments.family and arguments.format != "original":
        parser.error("--family goes with --format original")
    if arguments.dtype == "bfloat16" and arguments.format == "onnx":
        parser.error("--dtype bfloat16: onnxruntime has no convolutions in it; use float16, or --format pt2")
    return arguments


def check_packages(file_format: str) -> None:
    """Raise ConfigError if a package that a format needs is not installed."""
    missing = [name for name in PACKAGES.get(file_format, ()) if importlib.util.find_spec(name) is None]
    if missing:
        verb = "is" if len(missing) == 1 else "are"
        raise ConfigError(f'{", ".join(missing)} {verb} not installed: python -m pip install --editable ".[export]"')


def write_originals(loaded: LoadedGenerator, output: Path, family: str | None) -> None:
    """Write the generator, and its encoder to a second file, in the format of pix2pixHD or pix2pix.

    Raises:
        OriginalWeightsError: the family has no such network.
    """
    files = original_files(loaded.generator, output)
    families = {path: choose_family(network, family) for path, network in files.items()}
    for path, network in files.items():
        write_original(network, path, families[path])


def refuse_existing(path: Path) -> None:
    """Raise FileExistsError if a file would be overwritten."""
    if path.exists():
        raise FileExistsError(17, "already exists; choose another --output, or --existing replace", str(path))


def main(argv: Sequence[str]) -> None:
    """Export a generator according to the command line."""
    arguments = parse_arguments(argv)
    log_to_console(is_main=True)
    check_packages(arguments.format)
    file = find_checkpoint_file(arguments.checkpoint)
    loaded = load_generator(file, has_instances=arguments.instance_edges, raw_weights=arguments.weights == "raw")
    logger.info("checkpoint   %s", file)
    output = arguments.output or file.with_name(FILE_NAMES[arguments.format])
    if arguments.existing == "error":
        for path in original_files(loaded.generator, output) if arguments.format == "original" else [output]:
            refuse_existing(path)
    dtype: Dtype = arguments.dtype or "float32"
    match arguments.format:
        case "original":
            write_originals(loaded, output, arguments.family)
        case "safetensors":
            export_weights(loaded, output, dtype)
        case kind:
            export_program(loaded, output, kind, dtype, as_images=arguments.conditioning != "outside")


if __name__ == "__main__":
    sys.exit(run_entry_point(main))
