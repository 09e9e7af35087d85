"""Mixed precision in apex's four levels: which dtype computes, which holds the weights, the scaler of float16."""

import copy
from dataclasses import dataclass
from typing import Literal

import torch
from torch import nn
from torch.amp import GradScaler, autocast

OptLevel = Literal["O0", "O1", "O2", "O3"]


@dataclass(frozen=True)
class Precision:
    """How networks compute on a device.

    opt_level: O0 float32; O1 float32 weights, cast by autocast at each use; O2 weights in the low dtype, norms and the
        optimizer's master weights in float32; O3 everything in the low dtype, the optimizer too. Losses are in float32
        at each level.
    compute_dtype: float16, bfloat16, or float32 for none of both.
    """

    device_type: str
    compute_dtype: torch.dtype
    opt_level: OptLevel

    @property
    def is_slow(self) -> bool:
        """Whether a CPU is to compute in float16, for much of which torch has no fast code there."""
        return self.device_type == "cpu" and self.compute_dtype == torch.float16

    @property
    def keeps_master_weights(self) -> bool:
        """Whether a low copy computes in the place of the network that is trained."""
        return self.opt_level == "O2" and self.compute_dtype != torch.float32

    def autocast(self) -> autocast:
        """The context for forward passes and losses; it changes nothing in float32."""
        enabled = self.compute_dtype != torch.float32
        return autocast(self.device_type, dtype=self.compute_dtype if enabled else None, enabled=enabled)

    def make_scaler(self) -> GradScaler:
        """A scaler for one optimizer. Only float16 needs scaling: bfloat16 has float32's range.

        O3 has none, as in apex: gradients in float16 could not be unscaled.
        """
        return GradScaler(self.device_type, enabled=self.compute_dtype == torch.float16 and self.opt_level != "O3")

    def compute_copy(self, network: nn.Module) -> nn.Module:
        """Return what computes in place of a float32 `network`: itself, at O3 cast in place, or at O2 a low copy of it.

        The copy has the norms of `network` itself, in float32.
        """
        if not self.keeps_master_weights:
            return self.cast(network)
        low = copy.deepcopy(network).to(self.compute_dtype)
        for name, part in network.named_modules():
            if isinstance(part, nn.modules.batchnorm._BatchNorm):
                low.set_submodule(name, part)
        return low

    def cast(self, network: nn.Module) -> nn.Module:
        """`network` itself for translation, its weights cast in place at O2 and O3; at O2 norms stay in float32."""
        if self.compute_dtype == torch.float32 or self.opt_level in ("O0", "O1"):
            return network
        if self.opt_level == "O3":
            return network.to(self.compute_dtype)
        for part in network.modules():
            if not isinstance(part, nn.modules.batchnorm._BatchNorm):
                for tensor in (*part.parameters(recurse=False), *part.buffers(recurse=False)):
                    tensor.data = tensor.data.to(self.compute_dtype if tensor.is_floating_point() else tensor.dtype)
        return network


def choose_precision(opt_level: OptLevel, dtype: str, device: torch.device) -> Precision:
    """The precision of an opt level and a dtype ("auto", "float16", "bfloat16").

    auto takes bfloat16 where the device computes in it. Elsewhere a GPU takes float16, and a CPU, which would only
    emulate both, float32.
    """
    if opt_level == "O0":
        return Precision(device.type, torch.float32, opt_level)
    if dtype == "auto":
        return Precision(device.type, _native_low_dtype(device), opt_level)
    return Precision(device.type, {"float16": torch.float16, "bfloat16": torch.bfloat16}[dtype], opt_level)


def _native_low_dtype(device: torch.device) -> torch.dtype:
    if device.type == "cuda":
        return torch.bfloat16 if torch.cuda.is_bf16_supported(including_emulation=False) else torch.float16
    return torch.bfloat16 if torch.ops.mkldnn._is_mkldnn_bf16_supported() else torch.float32
