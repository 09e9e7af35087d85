"""Declarations of the formats of tools.export, and the check that each written file passes."""

import errno
import shutil
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from torch import Tensor

from inference.load import LoadedGenerator
from tools.export.example import LEVELS, Example
from utils.checkpoint import CheckpointError
from utils.log import logger

Dtype = Literal["float32", "float16"]
Run = Callable[[Mapping[str, Tensor]], Tensor]
Options = Mapping[str, Mapping[str, Any]]

# Levels of 255 between the file and the generator in float32: one for rounding, more for the few bits of 30 layers.
TOLERANCES: dict[Dtype, float] = {"float32": 1, "float16": 4}

_DTYPE_HELP = "type of weights and arithmetic; inputs and outputs keep their types; default: float32"
DTYPE: Options = {"dtype": {"choices": ("float32", "float16"), "default": "float32", "help": _DTYPE_HELP}}
CARD: Options = {
    name: {"metavar": "TEXT", "help": f"{name} in the file's model card; see docs/export.md"}
    for name in ("title", "description", "license")
}
_STYLE_HELP = "onnx, html: translate in the style of an image; default: the mean of all styles"
STYLE: Options = {"style": {"type": Path, "metavar": "IMAGE", "help": _STYLE_HELP}}


class ExportError(CheckpointError):
    """A generator cannot be exported in the chosen format."""


def default_stem(loaded: LoadedGenerator, options: Mapping[str, Any]) -> str:
    """Return the name of the output of most formats, without its suffix."""
    return "_".join(filter(None, ["generator", loaded.named_direction]))


@dataclass(frozen=True)
class Format:
    """A format of tools.export.

    content: What a file holds, for `--help`.
    suffix: Suffix of its files.
    write: Writes a generator: `write(loaded, output, **options)`. After an error it leaves no file.
    packages: Packages that writing needs.
    options: Arguments of `add_argument`, by the names of the options that not every format has.
    stem: Returns the name of the default output, without its suffix, for a generator and the values of `options`.
    paths: Returns the files that an output consists of.
    """

    content: str
    suffix: str
    write: Callable[..., None]
    packages: tuple[str, ...] = ()
    options: Options = field(default_factory=dict)
    stem: Callable[[LoadedGenerator, Mapping[str, Any]], str] = default_stem
    paths: Callable[[LoadedGenerator, Path], Sequence[Path]] = lambda _, output: [output]


def write_checked(
    path: Path, write: Callable[[Path], None], read: Callable[[Path], Run], examples: Sequence[Example], dtype: Dtype
) -> None:
    """Write a file to a folder next to `path`, compare its translations with the examples, and rename it.

    Raises:
        ExportError: The file translates differently. No file is left.
        OSError: The file cannot be written.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=path.parent, prefix=".exporting-") as folder:
        file = Path(folder) / path.name
        try:
            write(file)
        except OSError as error:
            free = shutil.disk_usage(folder).free
            what = f"{error.strerror or error} ({free:,} bytes are free)"
            raise OSError(error.errno or errno.EIO, what, str(path)) from error
        run, allowed = read(file), TOLERANCES[dtype]
        found = max(example.difference(run(example.inputs)) for example in examples)
        difference = f"{found:.4g} of {LEVELS} levels, {allowed:g} allowed"
        logger.info(f"difference   {difference}")
        if not found <= allowed:
            remedy = "Try --dtype float32 or another --format."
            raise ExportError(f"{path}: differs from the generator by {difference}, and was removed. {remedy}")
        file.replace(path)


def report_file(path: Path) -> None:
    """Log that a file was written, and its size."""
    logger.info(f"wrote        {path}: {path.stat().st_size / 1e6:.1f} MB")
