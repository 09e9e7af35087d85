"""Private functions of torch that the project uses, each with a fallback for a torch without it.

tests/utils/test_torch_private.py fails, and names the function, when torch drops one.
"""

from contextlib import AbstractContextManager, nullcontext, suppress

import torch


def cpu_computes_in_bfloat16() -> bool:
    """Return whether the CPU has bfloat16 instructions that oneDNN uses; False if torch is built without oneDNN."""
    try:
        return bool(torch.ops.mkldnn._is_mkldnn_bf16_supported())
    except (AttributeError, RuntimeError):  # wheels for macOS do not register the operator
        return False


def cpu_has_matrix_units() -> bool:
    """Return whether the CPU has AMX tiles; False if torch cannot detect them."""
    try:
        return bool(torch.cpu._is_amx_tile_supported())
    except AttributeError:
        return False


def allow_sizes_of_one() -> AbstractContextManager[object]:
    """Return a context in which torch.export does not exclude sizes of 1 from dynamic dimensions.

    The fallback changes nothing: a program then rejects a batch of 1, and a U-Net the smallest image.
    """
    with suppress(ImportError):
        from torch.fx.experimental import _config

        if hasattr(_config, "backed_size_oblivious"):
            return _config.patch(backed_size_oblivious=True)  # type: ignore[attr-defined]
    return nullcontext()


def freeze_compiled_weights() -> None:
    """Let torch.compile lay out weights for the device, for the rest of the process; they must not change any more.

    As an option of torch.compile it has no effect (torch 2.15). The fallback leaves the weights as they are.
    """
    with suppress(ImportError, AttributeError):
        from torch._inductor import config  # takes a second

        config.freezing = True
