"""The choice of a device, deterministic algorithms, torch.compile, and the precision of networks.

Mixed precision has apex's four opt levels. A level selects the dtypes of computations and weights.
"""

import copy
import importlib.util
import os
import shutil
import sysconfig
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, cast

import torch
from torch import Tensor, nn
from torch.amp import GradScaler, autocast

from utils.errors import UserError
from utils.log import logger
from utils.torch_private import cpu_computes_in_bfloat16, freeze_compiled_weights

_COMPILERS = ("c++", "g++", "clang++")


class DeviceError(UserError):
    """The chosen device is missing, or torch has no kernels for it."""


def choose_device(device: str, index: int = 0, option: str = "run.device=") -> torch.device:
    """Return the torch device for `device`: "auto", "cpu" or "cuda".

    "auto" selects the CPU if there is no GPU, or if the run has a single process and torch cannot use its GPU.

    index: Number of the GPU on this machine.
    option: Start of the command-line option for the device, such as "run.device=". Error messages contain it.

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
            f"{option}{device}: process {index} of this machine has no GPU, because torch finds only {n_gpus}. "
            f"Start {n_gpus} processes with --nproc-per-node {n_gpus}, or use {option}cpu."
        )
    if (problem := _problem_of(index)) is None:
        return torch.device("cuda", index)
    if device == "cuda" or int(os.environ.get("WORLD_SIZE", "1")) > 1:
        raise DeviceError(f"{problem}. Install a build of torch that supports this GPU, or use {option}cpu.")
    logger.warning("%s; using the CPU", problem)
    return torch.device("cpu")


def _problem_of(index: int) -> str | None:
    """Return why torch cannot compute on a GPU, or None."""
    try:
        torch.ones(1, device=torch.device("cuda", index)).add_(1).item()
    except torch.OutOfMemoryError:  # other programs use the memory; the run itself will report this
        return None
    except RuntimeError as error:  # torch has no kernels for this GPU, or the driver is too old
        return f"GPU {index}: torch {torch.__version__} cannot use it: {str(error).partition(chr(10))[0].rstrip('.')}"
    return None


def use_deterministic_algorithms(is_on: bool) -> None:
    """Turn deterministic algorithms on or off before using a GPU. Operations without such algorithms log a warning."""
    torch.use_deterministic_algorithms(is_on, warn_only=True)
    torch.utils.deterministic.fill_uninitialized_memory = False  # type: ignore[attr-defined]
    torch.backends.cudnn.deterministic = is_on
    if is_on:
        os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")  # cuBLAS reads this when it starts
        torch.backends.cudnn.benchmark = False
        warnings.filterwarnings("once", message=r"\S+ does not have a deterministic implementation")


def cpu_has_avx2_alone() -> bool:
    """Return whether the CPU has AVX2 but not AVX-512. On such a CPU, channels-last convolutions are slow."""
    return torch.backends.cpu.get_cpu_capability() == "AVX2"


class CompilerError(UserError):
    """A program or package that torch.compile needs is not installed."""


def what_compiling_lacks(device: torch.device) -> str | None:
    """Return the name of a program or package that torch.compile needs and this machine lacks, or None."""
    if device.type == "cuda":
        return None if importlib.util.find_spec("triton") else "the package triton"
    if not any(map(shutil.which, _COMPILERS)):
        return f"a C++ compiler ({', '.join(_COMPILERS)})"
    if not (Path(sysconfig.get_path("include")) / "Python.h").is_file():
        return "Python's header files (python3-dev)"
    return None


def compiled(network: nn.Module, device: torch.device, *, is_final: bool = False) -> nn.Module:
    """Return `network` as a module that torch.compile compiles in its first call, which takes up to a minute.

    is_final: Whether the weights are final. torch can then store them in the best layout for the device.

    Raises:
        CompilerError: This machine lacks something that torch.compile needs.
    """
    if missing := what_compiling_lacks(device):
        raise CompilerError(f"compiling needs {missing}, which is not installed: install it, or turn compiling off")
    if is_final:
        network.requires_grad_(False)
        freeze_compiled_weights()
    return cast(nn.Module, torch.compile(network))


OptLevel = Literal["O0", "O1", "O2", "O3"]
_BATCH_NORMS = (nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d, nn.SyncBatchNorm)


@dataclass(frozen=True)
class Precision:
    """The precision of networks on a device.

    opt_level: O0: float32. O1: float32 weights, which autocast casts at each use. O2: weights in `compute_dtype`, but
        norms and the optimizer's master weights in float32. O3: all in `compute_dtype`. Losses are in float32.
    compute_dtype: float16, bfloat16 or float32.
    """

    device_type: str
    compute_dtype: torch.dtype
    opt_level: OptLevel

    @property
    def is_slow(self) -> bool:
        """Whether a CPU computes in float16, which is slow."""
        return self.device_type == "cpu" and self.compute_dtype == torch.float16

    def autocast(self) -> autocast:
        """Return the autocast context for forward passes and losses. It has no effect in float32."""
        enabled = self.compute_dtype != torch.float32
        return autocast(self.device_type, dtype=self.compute_dtype if enabled else None, enabled=enabled)

    def make_scaler(self) -> GradScaler:
        """Return a scaler for one optimizer. At O3 it does nothing: GradScaler cannot unscale float16 gradients."""
        return GradScaler(self.device_type, enabled=self.compute_dtype == torch.float16 and self.opt_level != "O3")

    def compute_copy(self, network: nn.Module) -> nn.Module:
        """At O2, return a `compute_dtype` copy with the same batch norm objects. Otherwise, cast `network` in place."""
        if self.opt_level != "O2" or self.compute_dtype == torch.float32:
            return self.cast(network)
        low = copy.deepcopy(network).to(self.compute_dtype)
        for name, part in network.named_modules():
            if isinstance(part, _BATCH_NORMS):
                low.set_submodule(name, part)
        return low

    def cast(self, network: nn.Module) -> nn.Module:
        """Cast the weights of `network` in place, and return `network`. At O2, norms stay in float32."""
        if self.compute_dtype == torch.float32 or self.opt_level in ("O0", "O1"):
            return network
        if self.opt_level == "O3":
            return network.to(self.compute_dtype)
        for part in network.modules():
            if not (isinstance(part, _BATCH_NORMS) or getattr(part, "keeps_float32", False)):
                for tensor in (*part.parameters(recurse=False), *part.buffers(recurse=False)):
                    tensor.data = tensor.data.to(self.compute_dtype if tensor.is_floating_point() else tensor.dtype)
        return network


def choose_precision(opt_level: OptLevel, dtype: str, device: torch.device) -> Precision:
    """Return the precision for an opt level and a dtype.

    dtype: "float16", "bfloat16" or "auto". "auto" selects bfloat16 on devices with bfloat16 instructions, otherwise
        float16 on a GPU and float32 on a CPU.
    """
    if opt_level == "O0":
        return Precision(device.type, torch.float32, opt_level)
    if dtype != "auto":
        low = {"float16": torch.float16, "bfloat16": torch.bfloat16}[dtype]
    elif device.type == "cuda":
        low = torch.bfloat16 if torch.cuda.is_bf16_supported(including_emulation=False) else torch.float16
    else:
        low = torch.bfloat16 if cpu_computes_in_bfloat16() else torch.float32
    return Precision(device.type, low, opt_level)


def allow_tf32(is_allowed: bool) -> None:
    """Allow or forbid TF32 for float32 convolutions on NVIDIA GPUs. Matrix products stay in float32."""
    with warnings.catch_warnings():
        # this setting is deprecated, but torch.compile raises an error if it disagrees with the settings below
        warnings.simplefilter("ignore")
        torch.backends.cudnn.allow_tf32 = is_allowed
    precision = "tf32" if is_allowed else "ieee"
    torch.backends.cudnn.conv.fp32_precision = precision  # type: ignore[attr-defined]
    torch.backends.cudnn.rnn.fp32_precision = precision  # type: ignore[attr-defined]
    torch.backends.cuda.matmul.fp32_precision = "ieee"


def at_least_float32(tensor: Tensor) -> Tensor:
    """Return a tensor in float32 if its dtype has less precision, otherwise unchanged."""
    return tensor.to(torch.promote_types(tensor.dtype, torch.float32))
