"""torch.compile, and whether this machine has what it needs."""

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
    """Something that torch.compile needs is not installed."""


def what_compiling_lacks(device: torch.device) -> str | None:
    """Return the name of something that torch.compile needs and this machine lacks, or None."""
    if device.type == "cuda":
        return None if importlib.util.find_spec("triton") else "the package triton"
    if not any(shutil.which(name) for name in _COMPILERS):
        return f"a C++ compiler ({', '.join(_COMPILERS)})"
    if not (Path(sysconfig.get_path("include")) / "Python.h").is_file():
        return "Python's header files (python3-dev)"
    return None


def compiled(network: nn.Module, device: torch.device, *, is_final: bool = False) -> nn.Module:
    """Return `network` with layers fused by torch.compile; its first call compiles it, for up to a minute.

    is_final: the weights do not change any more, and are laid out for the device once.

    Raises:
        CompilerError: this machine lacks something that torch.compile needs.
    """
    if missing := what_compiling_lacks(device):
        raise CompilerError(f"compiling needs {missing}, which is not installed: install it, or switch compiling off")
    if is_final:
        network.requires_grad_(False)
        freeze_compiled_weights()
    return cast(nn.Module, torch.compile(network))
