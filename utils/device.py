"""The device that computes: a GPU for which torch has kernels, or the CPU; and algorithms that repeat its bits."""

import os
import re
import warnings
from collections.abc import Sequence
from typing import Any

import torch

from utils.errors import UserError
from utils.log import logger

_ARCHITECTURE = re.compile(r"(sm|compute)_(\d+)(\d)([af]?)")


class DeviceError(UserError):
    """The chosen device is missing, or torch has no kernels for it."""


def choose_device(device: str, index: int = 0, option: str = "run.device=") -> torch.device:
    """Return the device of "auto", "cpu" or "cuda"; a GPU is number `index` of this machine.

    option: what the user writes before the device, for the remedies.
    auto takes the CPU if there is no GPU, and with a warning if torch has no kernels for it.

    Raises:
        DeviceError: `device` is another, GPU `index` is missing, or "cuda" was chosen and torch has no kernels for it.
    """
    if device not in ("auto", "cpu", "cuda"):
        raise DeviceError(f"{option}{device}: no such device. Use {option}auto, {option}cpu or {option}cuda.")
    n_gpus = torch.cuda.device_count()
    if device == "cpu" or (device == "auto" and n_gpus == 0):
        return torch.device("cpu")
    if n_gpus == 0:
        raise DeviceError(f"{option}cuda: torch finds no GPU on this machine. Use {option}cpu or {option}auto.")
    if index >= n_gpus:
        raise DeviceError(
            f"{option}{device}: process {index} of this machine has no GPU, torch finds {n_gpus}. "
            f"Start {n_gpus} with --nproc-per-node {n_gpus}, or use {option}cpu."
        )
    # the GPUs of all processes of this machine, so that all decide alike
    n_needed = min(n_gpus, int(os.environ.get("LOCAL_WORLD_SIZE", "0")))
    problems = [problem for i in {index, *range(n_needed)} if (problem := _problem_of(i))]
    if not problems:
        return torch.device("cuda", index)
    if device == "cuda":
        raise DeviceError(f"{problems[0]}; install a build of torch that supports it, or use {option}cpu")
    logger.warning("%s; using the CPU", problems[0])
    return torch.device("cpu")


def _problem_of(index: int) -> str | None:
    """Return why torch cannot use a GPU; None where it can."""
    try:
        capability, name = torch.cuda.get_device_capability(index), torch.cuda.get_device_name(index)
    except RuntimeError as error:  # counted, but its driver is too old or gone
        return f"GPU {index} cannot be started: {str(error).partition(chr(10))[0]}"
    architectures = torch.cuda.get_arch_list()
    if has_kernels_for(capability, architectures):
        return None
    kernels = f"torch {torch.__version__} has kernels for {' '.join(architectures)} only"
    return f"GPU {index} ({name}, sm_{capability[0]}{capability[1]}): {kernels}"


def has_kernels_for(capability: tuple[int, int], architectures: Sequence[str]) -> bool:
    """Return whether a GPU runs code compiled for one of `architectures`, in the names of torch.cuda.get_arch_list.

    Machine code (sm_XY) runs on the same major version with minor >= Y, PTX (compute_XY) on every later version too;
    the suffix "a" restricts both to X.Y itself, "f" to major version X (CUDA C++ Programming Guide, "Compute
    Capabilities"). Names of other kinds, such as AMD's gfx90a, are not judged: without any of these it is True.
    """
    found = [match for name in architectures if (match := _ARCHITECTURE.fullmatch(name))]
    return not found or any(_runs(capability, match) for match in found)


def _runs(capability: tuple[int, int], architecture: re.Match[str]) -> bool:
    kind, major, minor, feature_set = architecture.groups()
    compiled_for = (int(major), int(minor))
    if feature_set == "a":
        return capability == compiled_for
    if kind == "sm" or feature_set == "f":
        return capability[0] == compiled_for[0] and capability >= compiled_for
    return capability >= compiled_for


_OPERATION = re.compile(r"(\S+) does not have a deterministic implementation")
_named: set[str] = set()  # operations without such an algorithm
_show_as_python = warnings.showwarning


def use_deterministic_algorithms(is_on: bool) -> None:
    """Use deterministic algorithms alone, or leave the choice to the libraries.

    Call it before a GPU computes. An operation that has no such algorithm is computed all the same, and named once in a
    warning.
    """
    torch.use_deterministic_algorithms(is_on, warn_only=True)
    torch.utils.deterministic.fill_uninitialized_memory = False  # type: ignore[attr-defined]
    torch.backends.cudnn.deterministic = is_on
    if is_on:
        os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")  # cuBLAS reads it when it starts
        torch.backends.cudnn.benchmark = False
        _named.clear()
        warnings.filterwarnings("always", message=_OPERATION.pattern)
        warnings.showwarning = _show


def _show(message: Warning | str, *details: Any, **options: Any) -> None:
    """Print a warning as Python does, but torch's of an operation in one line, once."""
    found = _OPERATION.search(str(message))
    if found is None:
        _show_as_python(message, *details, **options)
    elif found[1] not in _named:
        _named.add(found[1])
        logger.warning("train.deterministic: %s has no deterministic algorithm; the last bits may differ", found[1])


def cpu_has_avx2_alone() -> bool:
    """Return whether the CPU has AVX2 and not AVX-512: torch's convolutions of channels-last images are slow there."""
    return torch.backends.cpu.get_cpu_capability() == "AVX2"
