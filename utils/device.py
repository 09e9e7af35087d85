"""The device that computes: choosing it, deterministic algorithms, and torch.compile."""

import importlib.util
import os
import shutil
import sysconfig
import warnings
from pathlib import Path
from typing import cast

import torch
from torch import nn

from utils.errors import UserError
from utils.log import logger
from utils.torch_private import freeze_compiled_weights

_COMPILERS = ("c++", "g++", "clang++")


class DeviceError(UserError):
    """The chosen device is missing, or torch has no kernels for it."""


def choose_device(device: str, index: int = 0, option: str = "run.device=") -> torch.device:
    """Return the device of "auto", "cpu" or "cuda".

    "auto" is the CPU if there is no GPU, or if torch cannot compute on the GPU of a single process.

    index: Number of the GPU on this machine.
    option: Text before the device on the command line, for messages.

    Raises:
        DeviceError: There is no such device, or torch cannot compute on it.
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
    if (problem := _problem_of(index)) is None:
        return torch.device("cuda", index)
    if device == "cuda" or int(os.environ.get("WORLD_SIZE", "1")) > 1:
        raise DeviceError(f"{problem}. Install a build of torch that supports it, or use {option}cpu.")
    logger.warning("%s; using the CPU", problem)
    return torch.device("cpu")


def _problem_of(index: int) -> str | None:
    """Return why torch cannot compute on a GPU, or None."""
    try:
        torch.ones(1, device=torch.device("cuda", index)).add_(1).item()
    except torch.OutOfMemoryError:  # other programs use its memory, which the run reports itself
        return None
    except RuntimeError as error:  # there are no kernels for it, or its driver is too old
        return f"GPU {index}: torch {torch.__version__} cannot use it: {str(error).partition(chr(10))[0].rstrip('.')}"
    return None


def use_deterministic_algorithms(is_on: bool) -> None:
    """Use only deterministic algorithms where they exist. Call this before a GPU computes."""
    torch.use_deterministic_algorithms(is_on, warn_only=True)
    torch.utils.deterministic.fill_uninitialized_memory = False  # type: ignore[attr-defined]
    torch.backends.cudnn.deterministic = is_on
    if is_on:
        os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")  # cuBLAS reads it when it starts
        torch.backends.cudnn.benchmark = False
        warnings.filterwarnings("once", message=r"\S+ does not have a deterministic implementation")


def cpu_has_avx2_alone() -> bool:
    """Return whether the CPU has AVX2 but not AVX-512. Its convolutions of channels-last images are slow."""
    return torch.backends.cpu.get_cpu_capability() == "AVX2"


class CompilerError(UserError):
    """Something that torch.compile needs is not installed."""


def what_compiling_lacks(device: torch.device) -> str | None:
    """Return the name of something that torch.compile needs and this machine lacks, or None."""
    if device.type == "cuda":
        return None if importlib.util.find_spec("triton") else "the package triton"
    if not any(map(shutil.which, _COMPILERS)):
        return f"a C++ compiler ({', '.join(_COMPILERS)})"
    if not (Path(sysconfig.get_path("include")) / "Python.h").is_file():
        return "Python's header files (python3-dev)"
    return None


def compiled(network: nn.Module, device: torch.device, *, is_final: bool = False) -> nn.Module:
    """Return `network` with layers fused by torch.compile. The first call compiles it, for up to a minute.

    is_final: Whether the weights are final, so that torch may lay them out for the device.

    Raises:
        CompilerError: This machine lacks something that torch.compile needs.
    """
    if missing := what_compiling_lacks(device):
        raise CompilerError(f"compiling needs {missing}, which is not installed: install it, or switch compiling off")
    if is_final:
        network.requires_grad_(False)
        freeze_compiled_weights()
    return cast(nn.Module, torch.compile(network))
