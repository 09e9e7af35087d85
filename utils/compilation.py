"""torch.compile, and whether this machine can do it."""

import importlib.util
import shutil
import sysconfig
from pathlib import Path
from typing import cast

import torch
from torch import nn

from utils.errors import UserError
from utils.torch_private import freeze_compiled_weights

_COMPILERS = ("c++", "g++", "clang++")


class CompilerError(UserError):
    """What torch.compile needs is not there."""


def what_compiling_lacks(device: torch.device) -> str | None:
    """What torch.compile would miss on this machine, in words; None where it is complete."""
    if device.type == "cuda":
        return None if importlib.util.find_spec("triton") else "the package triton"
    if not any(shutil.which(name) for name in _COMPILERS):
        return f"a C++ compiler ({', '.join(_COMPILERS)})"
    if not (Path(sysconfig.get_path("include")) / "Python.h").is_file():
        return "Python's header files (python3-dev)"
    return None


def compiled(network: nn.Module, device: torch.device, *, is_final: bool = False) -> nn.Module:
    """`network`, whose layers are fused by torch.compile at its first call, which takes up to a minute.

    is_final: the weights will not change any more, so that they can be laid out for the device once.

    Raises:
        CompilerError: something is missing on this machine.
    """
    if missing := what_compiling_lacks(device):
        raise CompilerError(f"compiling needs {missing}, which is not there: install it, or do without compiling")
    if is_final:
        network.requires_grad_(False)
        freeze_compiled_weights()
    return cast(nn.Module, torch.compile(network))
