"""What entry points share: a user's error ends in one line on stderr and exit code 2.

Imports nothing that takes long, so that --help answers at once.
"""

import argparse
import errno
import io
import os
import re
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NoReturn

from utils.errors import ConfigError, Interrupted, UserError

MOST_LINES = 10  # of an error that holds several problems
_MEMORY = (
    "train with train.activation_checkpointing=true, smaller images (data.crop_width, data.load_width) or a smaller "
    "train.batch_size; translate with --tile 512 or a smaller --batch-size"
)
_OUT_OF_MEMORY = (
    "DefaultCPUAllocator",
    "CUDA error: out of memory",
    "CUDNN_STATUS_ALLOC_FAILED",
    "CUBLAS_STATUS_ALLOC",
)
_WAYS_OUT = {
    errno.EACCES: "change its permissions, or choose another place",
    errno.EPERM: "change its permissions, or choose another place",
    errno.EROFS: "choose a place that can be written to",
    errno.ENAMETOOLONG: "choose a shorter name",
    errno.ENOTDIR: "a file is in the place of a folder; choose another place",
    errno.EISDIR: "name a file in it",
    errno.ENOENT: "check the path",
    errno.ENOSPC: "free space there, or choose another place",
    errno.EDQUOT: "free space there, or choose another place",
    errno.ENOMEM: "end other programs, or ask for less",
    errno.EIO: "the disk does not answer as it should; try again, or choose another place",
}


class ArgumentParser(argparse.ArgumentParser):
    """A command line whose mistakes are told as all others are, in one line."""

    def error(self, message: str) -> NoReturn:
        """End with exit code 2."""
        is_setting = message.startswith("unrecognized") and "=" in message
        hint = "settings are written section.key=value, without dashes" if is_setting else f"see {self.prog} --help"
        self.exit(2, f"error: {message}; {hint}\n")


def run_entry_point(main: Callable[[Sequence[str]], None]) -> int:
    """Call `main` with the command line and return the exit code.

    0; 2 after a user's error; 128 + its number after a signal that stopped a run. Any other exception is a fault of the
    application and keeps its traceback.
    """
    _prepare_streams()
    try:
        main(sys.argv[1:])
    except KeyboardInterrupt:
        sys.stderr.write("interrupted\n")
        return 130
    except BrokenPipeError:  # as of `| head`
        return 141  # 128 + SIGPIPE
    except Interrupted as error:
        sys.stderr.write(f"{error}; the same command, without --resume, goes on from there\n")
        return error.exit_code
    except Exception as error:
        if not isinstance(error, UserError | OSError) and not _is_out_of_memory(error):
            raise
        sys.stderr.writelines(f"error: {_printable(problem)}\n" for problem in _problems(error))
        return 2
    finally:
        _flush_output()
    return 0


def _prepare_streams() -> None:
    """Make sure that there are streams, and that what their encoding lacks is escaped."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:  # closed: the next file to be opened would take its place
            setattr(sys, name, Path(os.devnull).open(mode, encoding="utf-8"))  # noqa: SIM115 - until the process ends
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")


def _flush_output() -> None:
    """Say what is left to say; a reader that has gone, as `head` does, is no error."""
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _problems(error: Exception) -> list[str]:
    """What is to be told of a user's error, a line each."""
    if _is_out_of_memory(error):
        return [f"out of memory: {_asked_for(error)} could not be had; {_MEMORY}"]
    if isinstance(error, OSError) and error.filename is not None and error.strerror:
        way_out = _WAYS_OUT.get(error.errno or 0)
        return [f"{error.filename}: {error.strerror}" + (f": {way_out}" if way_out else "")]
    if isinstance(error, OSError) and error.errno in _WAYS_OUT:
        return [f"{error.strerror}: {_WAYS_OUT[error.errno]}"]
    if not isinstance(error, ConfigError):
        return [str(error)]
    n_left = len(error.problems) - MOST_LINES
    return [*error.problems[:MOST_LINES], *([f"and {n_left} more"] if n_left > 0 else [])]


def _is_out_of_memory(error: Exception) -> bool:
    """Of a GPU, of Python, or of what tells it as any other failure: torch's tensors on a CPU, libraries on a GPU."""
    import torch

    if isinstance(error, RuntimeError) and isinstance(error.__context__, torch.OutOfMemoryError):
        return True  # a CUDA graph that could not be captured for that
    is_said = isinstance(error, RuntimeError) and any(words in str(error) for words in _OUT_OF_MEMORY)
    return is_said or isinstance(error, MemoryError | torch.OutOfMemoryError)


def _asked_for(error: Exception) -> str:
    """How much; what torch says beside it is about its allocator."""
    said = re.search(r"(?:tried|unable) to allocate ([\d.]+ \w+)", str(error), re.IGNORECASE)
    return f"{said[1]} more" if said else "what was needed"


def _printable(text: str) -> str:
    """`text` in one line, with what a terminal would obey escaped: names of files may hold anything."""
    return "".join(c if c.isprintable() else repr(c)[1:-1] for c in " ".join(text.split()))
