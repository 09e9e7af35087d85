"""Mixed precision: which dtype computes, and the scaler that float16 needs."""

from dataclasses import dataclass

import torch
from torch.amp import GradScaler, autocast


@dataclass(frozen=True)
class Precision:
    """How networks compute on a device. compute_dtype: float16, bfloat16, or float32 for none of both."""

    device_type: str
    compute_dtype: torch.dtype

    def autocast(self) -> autocast:
        """The context for forward passes and losses; it changes nothing in float32."""
        enabled = self.compute_dtype != torch.float32
        return autocast(self.device_type, dtype=self.compute_dtype if enabled else None, enabled=enabled)

    def make_scaler(self) -> GradScaler:
        """A scaler for one optimizer. Only float16 needs scaling: bfloat16 has float32's range."""
        return GradScaler(self.device_type, enabled=self.compute_dtype == torch.float16)


def choose_precision(opt_level: str, dtype: str, device: torch.device) -> Precision:
    """The precision of an opt level ("O0" float32, others the low dtype) and a dtype ("auto", "float16", "bfloat16").

    auto takes bfloat16 where the device computes in it. Elsewhere a GPU takes float16, and a CPU, which would only
    emulate both, float32.
    """
    if opt_level == "O0":
        return Precision(device.type, torch.float32)
    if dtype == "auto":
        return Precision(device.type, _native_low_dtype(device))
    return Precision(device.type, {"float16": torch.float16, "bfloat16": torch.bfloat16}[dtype])


def _native_low_dtype(device: torch.device) -> torch.dtype:
    if device.type == "cuda":
        return torch.bfloat16 if torch.cuda.is_bf16_supported(including_emulation=False) else torch.float16
    return torch.bfloat16 if torch.ops.mkldnn._is_mkldnn_bf16_supported() else torch.float32
