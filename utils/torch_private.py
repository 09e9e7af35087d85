"""Private functions and texts of torch that the project uses, each with a fallback. A test names those that go."""

import errno
import os
import pickle
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext, suppress

import torch
from torch import Tensor


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
    """Return a context that lets torch.export include sizes of 1 in dynamic dimensions. Fallback: they are refused."""
    with suppress(ImportError):
        from torch.fx.experimental import _config

        if hasattr(_config, "backed_size_oblivious"):
            return _config.patch(backed_size_oblivious=True)  # type: ignore[attr-defined]
    return nullcontext()


def copy_all(targets: Sequence[Tensor], sources: Sequence[Tensor]) -> None:
    """Copy tensors into others of their shapes with few kernels. Fallback: a kernel for each."""
    if hasattr(torch, "_foreach_copy_"):
        torch._foreach_copy_(list(targets), list(sources))
        return
    for target, source in zip(targets, sources, strict=True):
        target.copy_(source)


def freeze_compiled_weights() -> None:
    """Let torch.compile lay out weights for the device, for the rest of the process. They must not change any more.

    The same option of torch.compile has no effect (torch 2.15). Fallback: nothing.
    """
    with suppress(ImportError, AttributeError):
        from torch._inductor import config  # takes a second

        config.freezing = True


def import_compiler() -> None:
    """Import the part of the compiler that DistributedDataParallel would import. Fallback: nothing."""
    with suppress(ImportError):
        import torch._dynamo  # noqa: F401


def left_out_of_compilation(function: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """Return a function that torch.compile leaves out. Fallback: torch.compiler.disable, which imports the compiler."""
    disable: Callable[..., Callable[..., Tensor]] = getattr(torch, "_disable_dynamo", torch.compiler.disable)
    return disable(function)


def is_system_error(error: Exception) -> bool:
    """Return whether a file cannot be read for a temporary reason, such as too many open files."""
    # torch raises RuntimeErrors that quote the system
    quoted = (os.strerror(number) for number in (errno.EMFILE, errno.ENFILE, errno.ENOMEM))
    is_quoted = isinstance(error, RuntimeError) and any(text in str(error) for text in quoted)
    return is_quoted or isinstance(error, OSError | MemoryError)


def is_refused_type(error: Exception) -> bool:
    """Return whether torch.load refused a file because it names types other than tensors and plain types."""
    texts = ("was not an allowed global", "is blocked")
    return isinstance(error, pickle.UnpicklingError) and any(text in str(error) for text in texts)
