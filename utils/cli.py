"""Entry points: parsing, exit codes, and errors of the user in one line each on standard error.

Imports nothing slow, so that --help answers at once.
"""

import argparse
import errno
import io
import os
import re
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NoReturn

from utils.errors import ConfigError, Interrupted, UserError

MAX_PROBLEMS = 10  # printed of one error
_LESS_MEMORY = (
    "train with train.activation_checkpointing=true, smaller images (data.crop_width, data.load_width) or a smaller "
    "train.batch_size; translate with --tile 512 or a smaller --batch-size"
)
_OUT_OF_MEMORY = (  # in RuntimeErrors: torch's tensors on a CPU, libraries on a GPU
    "DefaultCPUAllocator",
    "CUDA error: out of memory",
    "CUDNN_STATUS_ALLOC_FAILED",
    "CUBLAS_STATUS_ALLOC",
)
_REMEDIES = {
    errno.EACCES: "change its permissions, or choose another place",
    errno.EPERM: "change its permissions, or choose another place",
    errno.EROFS: "choose a place that can be written to",
    errno.ENAMETOOLONG: "choose a shorter name",
    errno.ENOTDIR: "a file is in the place of a folder; choose another place",
    errno.EISDIR: "name a file in it",
    errno.ENOENT: "check the path",
    errno.ENOSPC: "free space there, or choose another place",
    errno.EDQUOT: "free space there, or choose another place",
    errno.ENOMEM: "close other programs, or use smaller sizes",
    errno.EIO: "the disk fails; try again, or choose another place",
}


class ArgumentParser(argparse.ArgumentParser):
    """An argument parser that prints errors as `run_entry_point` does."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**{"prog": _program()} | options)

    def error(self, message: str) -> NoReturn:
        """Print `message` in one line and exit with code 2."""
        is_setting = message.startswith("unrecognized") and "=" in message
        hint = "settings are written section.key=value, without dashes" if is_setting else f"see {self.prog} --help"
        self.exit(2, f"error: {message}; {hint}\n")


def _program() -> str:
    """Return the start of the command line, such as "train.py" or "python -m tools.export"."""
    spec = sys.modules["__main__"].__spec__
    return f"python -m {spec.name.removesuffix('.__main__')}" if spec else Path(sys.argv[0]).name


def run_entry_point(main: Callable[[Sequence[str]], None]) -> int:
    """Call `main` with the command line and return the exit code.

    The code is 2 after a UserError, an OSError or a lack of memory, 128 + N after signal N stopped a run, otherwise 0.
    Any other exception is a fault of the application and keeps its traceback.
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
        sys.stderr.write(f"{error}; the same command, without --resume, continues from there\n")
        return error.exit_code
    except (UserError, OSError) as error:
        return _report(_problems(error))
    except Exception as error:
        if not _is_out_of_memory(error):
            raise
        return _report([f"out of memory: could not allocate {_requested(error)}; {_LESS_MEMORY}"])
    finally:
        _flush_output()
    return 0


def _prepare_streams() -> None:
    """Replace closed streams, and escape characters that the encoding of standard output lacks."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:  # closed: the next opened file would get its descriptor
            setattr(sys, name, Path(os.devnull).open(mode, encoding="utf-8"))  # noqa: SIM115 - until the process ends
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")


def _flush_output() -> None:
    """Flush standard output; a reader that has closed it, as `head` does, is no error."""
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _report(problems: Sequence[str]) -> int:
    sys.stderr.writelines(f"error: {_printable(problem)}\n" for problem in problems)
    return 2


def _problems(error: UserError | OSError) -> list[str]:
    """Return the problems of an error, with the remedy for those of the operating system."""
    if isinstance(error, OSError):
        subject = error.strerror or str(error)
        if error.filename is not None and error.strerror:
            subject = f"{error.filename}: {error.strerror}"
        remedy = _REMEDIES.get(error.errno or 0)
        return [f"{subject}: {remedy}" if remedy else subject]
    if not isinstance(error, ConfigError):
        return [str(error)]
    n_left = len(error.problems) - MAX_PROBLEMS
    return [*error.problems[:MAX_PROBLEMS], *([f"and {n_left} more"] if n_left > 0 else [])]


def _is_out_of_memory(error: Exception) -> bool:
    import torch

    if isinstance(error, MemoryError | torch.OutOfMemoryError):
        return True
    if not isinstance(error, RuntimeError):
        return False
    is_from_capture = isinstance(error.__context__, torch.OutOfMemoryError)  # of a CUDA graph
    return is_from_capture or any(sign in str(error) for sign in _OUT_OF_MEMORY)


def _requested(error: Exception) -> str:
    """Return the size of the failed allocation, without torch's report on its allocator."""
    size = re.search(r"(?:tried|unable) to allocate ([\d.]+ \w+)", str(error), re.IGNORECASE)
    return f"{size[1]} more" if size else "enough"


def _printable(text: str) -> str:
    """Return `text` in one line, with control characters escaped: names of files may hold anything."""
    return "".join(c if c.isprintable() else repr(c)[1:-1] for c in " ".join(text.split()))
