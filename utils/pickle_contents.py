"""The contents of a pickle, found without loading it."""

import pickletools
import struct
import zipfile
import zlib
from contextlib import ExitStack
from pathlib import Path
from typing import IO

_NAMES_A_TYPE = {"GLOBAL", "INST", "STACK_GLOBAL", "EXT1", "EXT2", "EXT4"}
_OF_TENSORS = ("torch ", "torch._utils ", "torch.nn.parameter ", "torch.storage ", "collections OrderedDict")
_NO_PICKLE = (  # raised by the readers of archives and pickles
    ArithmeticError,
    EOFError,
    LookupError,
    OSError,
    RuntimeError,
    StopIteration,
    ValueError,
    struct.error,
    zipfile.BadZipFile,
    zlib.error,
)
_MOST_PICKLES = 8  # in one file; torch's older format has five


def holds_code(path: Path) -> bool:
    """Return whether a file is an intact pickle, bare or in torch's archive, of more than tensors and plain types."""
    with ExitStack() as opened:
        try:
            if zipfile.is_zipfile(path):
                archive = opened.enter_context(zipfile.ZipFile(path))
                record = next(name for name in archive.namelist() if name.endswith("data.pkl"))
                return _pickle_holds_code(opened.enter_context(archive.open(record)))
            file = opened.enter_context(path.open("rb"))
            return any(_pickle_holds_code(file) for _ in range(_MOST_PICKLES))
        except _NO_PICKLE:
            return False


def _pickle_holds_code(file: IO[bytes]) -> bool:
    """Read one pickle and return whether it names other types; raise if it is none, or has no end."""
    named = [str(argument) for code, argument, _ in pickletools.genops(file) if code.name in _NAMES_A_TYPE]
    return any(not name.startswith(_OF_TENSORS) for name in named)
