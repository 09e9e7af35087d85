"""Mixed precision in apex's four opt levels: dtypes of arithmetic and weights, and the scaler of float16."""

import copy
import warnings
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor, nn
from torch.amp import GradScaler, autocast

from utils.torch_private import cpu_computes_in_bfloat16

OptLevel = Literal["O0", "O1", "O2", "O3"]
_BATCH_NORMS = (nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d, nn.SyncBatchNorm)


@dataclass(frozen=True)
class Precision:
    """The precision of networks on a device.

    opt_level: O0: float32. O1: float32 weights, cast by autocast at each use. O2: weights in the low dtype, norms and
        the optimizer's master weights in float32. O3: everything in the low dtype. Losses are always in float32.
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
        """Return the context of forward passes and losses. It has no effect in float32."""
        enabled = self.compute_dtype != torch.float32
        return autocast(self.device_type, dtype=self.compute_dtype if enabled else None, enabled=enabled)

    def make_scaler(self) -> GradScaler:
        """Return a scaler for one optimizer. It is disabled at O3, as in apex: float16 gradients cannot be unscaled."""
        return GradScaler(self.device_type, enabled=self.compute_dtype == torch.float16 and self.opt_level != "O3")

    def compute_copy(self, network: nn.Module) -> nn.Module:
        """Return the network that computes: a low copy that shares the norms at O2, else `network` itself, cast."""
        if self.opt_level != "O2" or self.compute_dtype == torch.float32:
            return self.cast(network)
        low = copy.deepcopy(network).to(self.compute_dtype)
        for name, part in network.named_modules():
            if isinstance(part, _BATCH_NORMS):
                low.set_submodule(name, part)
        return low

    def cast(self, network: nn.Module) -> nn.Module:
        """Cast the weights of `network` in place for translation, and return it; at O2 norms stay in float32."""
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
    """Return the precision of an opt level and a dtype.

    dtype: "float16", "bfloat16", or "auto": bfloat16 on devices that compute in it, otherwise float16 on a GPU and
        float32 on a CPU, which would only emulate both.
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
    """Let NVIDIA GPUs compute convolutions of float32 in TF32, or forbid it. Matrix products stay in float32."""
    with warnings.catch_warnings():
        # deprecated, but torch.compile reads it, and raises an error if it and the settings below disagree
        warnings.simplefilter("ignore")
        torch.backends.cudnn.allow_tf32 = is_allowed
    precision = "tf32" if is_allowed else "ieee"
    torch.backends.cudnn.conv.fp32_precision = precision  # type: ignore[attr-defined]
    torch.backends.cudnn.rnn.fp32_precision = precision  # type: ignore[attr-defined]
    torch.backends.cuda.matmul.fp32_precision = "ieee"


def at_least_float32(tensor: Tensor) -> Tensor:
    """Return a tensor in its own dtype, or in float32 if that dtype has less precision."""
    return tensor.to(torch.promote_types(tensor.dtype, torch.float32))
