"""Private functions and error texts of torch, each with a fallback. A test fails if torch removes any of these."""

import errno
import os
import pickle
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext, suppress

import torch
from torch import Tensor


def cpu_computes_in_bfloat16() -> bool:
    """Return whether the CPU has bfloat16 instructions that oneDNN uses. Fallback (torch without oneDNN): False."""
    try:
        return bool(torch.ops.mkldnn._is_mkldnn_bf16_supported())
    except (AttributeError, RuntimeError):  # wheels for macOS do not register the operator
        return False


def cpu_has_matrix_units() -> bool:
    """Return whether the CPU has AMX tiles. Fallback: False."""
    try:
        return bool(torch.cpu._is_amx_tile_supported())
    except AttributeError:
        return False


def allow_sizes_of_one() -> AbstractContextManager[object]:
    """Return a context that lets torch.export include size 1 in dynamic dimensions. Fallback: size 1 is refused."""
    with suppress(ImportError):
        from torch.fx.experimental import _config

        if hasattr(_config, "backed_size_oblivious"):
            return _config.patch(backed_size_oblivious=True)  # type: ignore[attr-defined]
    return nullcontext()


def copy_all(targets: Sequence[Tensor], sources: Sequence[Tensor]) -> None:
    """Copy `sources` into `targets` of the same shapes, with few kernels. Fallback: one kernel for each tensor."""
    if hasattr(torch, "_foreach_copy_"):
        torch._foreach_copy_(list(targets), list(sources))
        return
    for target, source in zip(targets, sources, strict=True):
        target.copy_(source)


def freeze_compiled_weights() -> None:
    """From now on, let torch.compile convert weights to the device's best layout. Weights must not change any more.

    The option `freezing` of torch.compile itself has no effect (torch 2.15). Fallback: do nothing.
    """
    with suppress(ImportError, AttributeError):
        from torch._inductor import config  # this import takes a second

        config.freezing = True


def import_compiler() -> None:
    """Import the part of the compiler that DistributedDataParallel imports later. Fallback: do nothing."""
    with suppress(ImportError):
        import torch._dynamo  # noqa: F401


def left_out_of_compilation(function: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """Exclude a function from torch.compile. Fallback: torch.compiler.disable, which also imports the compiler."""
    disable: Callable[..., Callable[..., Tensor]] = getattr(torch, "_disable_dynamo", torch.compiler.disable)
    return disable(function)


def is_system_error(error: Exception) -> bool:
    """Return whether an error has a temporary cause in the system, such as too many open files."""
    # torch raises RuntimeErrors with the system's message
    quoted = (os.strerror(number) for number in (errno.EMFILE, errno.ENFILE, errno.ENOMEM))
    is_quoted = isinstance(error, RuntimeError) and any(text in str(error) for text in quoted)
    return is_quoted or isinstance(error, OSError | MemoryError)


def is_refused_type(error: Exception) -> bool:
    """Return whether torch.load refused a file because of types other than tensors and plain types."""
    texts = ("was not an allowed global", "is blocked")
    return isinstance(error, pickle.UnpicklingError) and any(text in str(error) for text in texts)
