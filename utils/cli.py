"""Entry points: argument parsing, exit codes, and one-line messages for user errors. Imports nothing slow."""

import argparse
import errno
import io
import os
import re
import signal
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NoReturn

from utils.errors import ConfigError, Interrupted, UserError
from utils.signals import INTERRUPTED, deferred, handling_ctrl_c
from utils.text import did_you_mean, printable

USER_ERROR = 2  # exit code for user errors; Python exits with 1 after a bug in the program
MAX_PROBLEMS = 10  # largest number of problems that are printed for an error
PATIENCE_S = 1.0  # longest wait for the message of the process that failed first
_LESS_MEMORY = (
    "train with train.activation_checkpointing=true, smaller images (data.crop_width, data.load_width) or a smaller "
    "train.batch_size; translate with --tile 512 or a smaller --batch-size"
)
_OUT_OF_MEMORY = (  # texts in RuntimeErrors of torch on a CPU, and of GPU libraries
    "DefaultCPUAllocator",
    "CUDA error: out of memory",
    "CUDNN_STATUS_ALLOC_FAILED",
    "CUBLAS_STATUS_ALLOC",
)
_REMEDIES = {
    **dict.fromkeys((errno.EACCES, errno.EPERM), "change its permissions, or choose another place"),
    **dict.fromkeys((errno.ENOSPC, errno.EDQUOT), "free space there, or choose another place"),
    errno.EROFS: "choose a place that can be written to",
    errno.ENOTDIR: "a part of the path is a file, not a folder; choose another place",
    errno.EISDIR: "name a file in this folder",
    errno.ENAMETOOLONG: "choose a shorter name",
    errno.ENOENT: "check the path",
    errno.ENOMEM: "close other programs, or use smaller sizes",
    errno.EIO: "the disk fails; try again, or choose another place",
}
_INVALID_CHOICE = re.compile(r"invalid choice: '([^']*)' \(choose from (.*)\)")
_WORD = re.compile(r"[\w.-]+")


class ArgumentParser(argparse.ArgumentParser):
    """An argument parser that prints errors in the style of `run_entry_point`."""

    def __init__(self, **options: Any) -> None:
        self._options: list[str] = []
        super().__init__(**{"prog": _program()} | options)

    def add_argument(self, *names: Any, **options: Any) -> argparse.Action:
        """Add an argument, as in argparse, but do not accept an empty text as a path."""
        if options.get("type") is Path:
            options["type"] = _path
        action = super().add_argument(*names, **options)
        self._options += action.option_strings
        return action

    def error(self, message: str) -> NoReturn:
        """Print `message` and a suggestion in one line, and exit with code 2."""
        hint = ""
        if choice := _INVALID_CHOICE.search(message):
            hint = did_you_mean(choice[1], _WORD.findall(choice[2]))
        elif message.startswith("unrecognized arguments: "):
            option = message.split()[2].partition("=")[0]
            is_setting = "." in option and "section.key=value" in self.format_usage()
            hint = "settings are written section.key=value, without dashes" if is_setting else ""
            hint = hint or did_you_mean(option, self._options, cutoff=0.7)
        elif "required: --config" in message:
            hint = "write --config configs/demo.yaml"
        sys.exit(_report([f"{message}; {hint or f'see {self.prog} --help'}"]))


def whole_number(least: int, most: int | None = None) -> Callable[[str], int]:
    """Return the argparse type for whole numbers from `least` to `most`."""
    bounds = f"from {least} to {most}" if most is not None else "above 0" if least == 1 else f"from {least}"

    def parse(text: str) -> int:
        if not text.isdecimal() or int(text) < least or (most is not None and int(text) > most):
            raise argparse.ArgumentTypeError(f"{text!r} is not a whole number {bounds}")
        return int(text)

    return parse


def _path(text: str) -> Path:
    """Return `text` as a path. Refuse an empty text (an unset variable), because Path("") is the current folder."""
    if not text:
        raise argparse.ArgumentTypeError("'' is not a path: name a path, or omit the option")
    return Path(text)


def _program() -> str:
    """Return the program's part of the command line, such as "train.py" or "python -m tools.export"."""
    spec = sys.modules["__main__"].__spec__
    return f"python -m {spec.name.removesuffix('.__main__')}" if spec else Path(sys.argv[0]).name


def run_entry_point(main: Callable[[Sequence[str]], None]) -> int:
    """Call `main` with the command line and return the exit code.

    The code is USER_ERROR after a UserError, an OSError or a lack of memory, 128 + N after signal N stopped a run, or 0
    after success. Any other exception is a bug of the application. It is not caught, so Python prints its traceback.
    """
    _prepare_streams()
    try:
        with handling_ctrl_c(deferred(signal.default_int_handler)):
            main(sys.argv[1:])
    except KeyboardInterrupt:
        sys.stderr.write(INTERRUPTED)
        return 130
    except BrokenPipeError:  # `| head`
        return 141  # 128 + SIGPIPE
    except Interrupted as error:
        sys.stderr.write(f"{error}; {error.remedy}\n")
        return error.exit_code
    except (UserError, OSError) as error:
        return _report(_problems(error), is_consequence=isinstance(error, UserError) and error.is_consequence)
    except Exception as error:
        if not is_out_of_memory(error):
            raise
        size = re.search(r"(?:tried|unable) to allocate ([\d.]+ \w+)", str(error), re.IGNORECASE)
        amount = f"{size[1]} more" if size else "enough"
        return _report([f"out of memory: could not allocate {amount}; {_LESS_MEMORY}"])
    finally:
        _flush_output()
    return 0


def _prepare_streams() -> None:
    """Replace closed streams. Make standard output escape the characters that its encoding lacks."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:  # otherwise the next opened file would get this descriptor
            setattr(sys, name, Path(os.devnull).open(mode, encoding="utf-8"))  # noqa: SIM115 - until the process ends
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")


def _flush_output() -> None:
    """Flush standard output, which a reader such as `head` may have closed."""
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _report(problems: Sequence[str], *, is_consequence: bool = False) -> int:
    lines = [f"error: {printable(' '.join(problem.split()))}\n" for problem in problems]
    print_first(lines, is_consequence=is_consequence)
    return USER_ERROR


def _problems(error: UserError | OSError) -> list[str]:
    """Return the problems in an error, with a remedy for an error of the operating system."""
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


def is_out_of_memory(error: Exception) -> bool:
    """Return whether the memory of the CPU or of a GPU was too small."""
    import torch

    is_sign = isinstance(error, RuntimeError) and any(sign in str(error) for sign in _OUT_OF_MEMORY)
    return is_sign or isinstance(error, MemoryError | torch.OutOfMemoryError)


def print_first(lines: list[str], *, is_consequence: bool = False) -> None:
    """Write lines to standard error, unless another process of this run on this machine has already printed an error.

    Under torchrun, a user error usually occurs in every process, and a single report is enough.

    is_consequence: Whether the error only reports that another process has failed. This process then waits a second for
        the other process to print its error. Its own lines do not stop other processes from printing.
    """
    if folder := _shared_folder():
        printed = folder / "error_printed"
        deadline = time.monotonic() + (PATIENCE_S if is_consequence else 0)
        while time.monotonic() < deadline and not printed.exists():
            time.sleep(0.01)
        try:
            if is_consequence and not printed.exists():
                sys.stderr.writelines(lines)
                return
            printed.touch(exist_ok=False)
        except FileExistsError:
            time.sleep(0.1)  # torchrun kills all processes when one ends: let the first process print its lines
            return
        except OSError:  # the folder cannot be written to
            pass
    sys.stderr.writelines(lines)


def _shared_folder() -> Path | None:
    """Return the folder that torchrun has created for this start on this machine, or None without torchrun."""
    file = os.environ.get("TORCHELASTIC_ERROR_FILE")  # FOLDER/attempt_N/LOCAL_RANK/error.json
    if not file or int(os.environ.get("WORLD_SIZE", "1")) == 1:
        return None
    folder = Path(file).parents[1]
    return folder if folder.is_dir() else None
