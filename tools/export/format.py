"""The declaration of an export format, and the check of each exported file against the generator."""

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

# Largest allowed difference in levels of 1/255: 1 for rounding, more for the errors of float16 in about 30 layers.
TOLERANCES: dict[Dtype, float] = {"float32": 1, "float16": 4}

_DTYPE_HELP = "type of the weights and the arithmetic, but not of inputs and outputs; default: float32"
DTYPE: Options = {"dtype": {"choices": ("float32", "float16"), "default": "float32", "help": _DTYPE_HELP}}
CARD: Options = {
    name: {"metavar": "TEXT", "help": f"{name} for the model card; see docs/export.md"}
    for name in ("title", "description", "license")
}
_STYLE_HELP = "onnx, html: image whose style all translations get; default: the mean style"
STYLE: Options = {"style": {"type": Path, "metavar": "IMAGE", "help": _STYLE_HELP}}


class ExportError(CheckpointError):
    """A generator cannot be exported in the chosen format."""


def default_stem(loaded: LoadedGenerator, options: Mapping[str, Any]) -> str:
    """Return the default file name without suffix. Most formats use this function."""
    return "_".join(filter(None, ["generator", loaded.named_direction]))


@dataclass(frozen=True)
class Format:
    """An export format.

    content: Short description of the file, for `--help`.
    suffix: Suffix of the files, such as ".onnx".
    write: Function `write(loaded, output, **options)` that writes a generator. After an error, no file is left.
    packages: Python packages that `write` needs.
    options: Arguments of `add_argument` for the options of this format, by option name.
    stem: Function that returns the default file name, without suffix, for a generator and the values of `options`.
    paths: Function that returns all files that `write` creates for an output path.
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
    """Write a temporary file, check its translations, and move it to `path`.

    read: Function that loads the file. It returns a function that runs the file's generator on named inputs.

    Raises:
        ExportError: Translations of the file differ from the examples. The file is deleted.
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
        difference = f"{found:.4g} of {LEVELS} levels ({allowed:g} allowed)"
        logger.info(f"difference   {difference}")
        if not found <= allowed:
            remedy = "Try --dtype float32 or another --format."
            raise ExportError(f"{path}: differs from the generator by {difference}. The file was deleted. {remedy}")
        file.replace(path)


def report_file(path: Path) -> None:
    """Log the path and size of a written file."""
    logger.info(f"wrote        {path}: {path.stat().st_size / 1e6:.1f} MB")
