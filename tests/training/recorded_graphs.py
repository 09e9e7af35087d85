"""A substitute for CUDA graphs without a GPU: it records operations and repeats them on their tensors."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves


class Recorder(TorchDispatchMode):
    """Records every operation with its tensors, also in backward passes."""

    def __init__(self) -> None:
        super().__init__()
        self.calls: list[tuple[Any, Any, Any, Any]] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        outputs = func(*args, **(kwargs or {}))
        self.calls.append((func, args, kwargs or {}, outputs))
        return outputs

    @torch.no_grad()
    def repeat(self) -> None:
        """Repeat the operations, and write the results to the same tensors."""
        for func, args, kwargs, outputs in self.calls:
            given = {tensor.untyped_storage().data_ptr() for tensor in _tensors((args, kwargs))}
            for kept, new in zip(_tensors(outputs), _tensors(func(*args, **kwargs)), strict=True):
                if kept.untyped_storage().data_ptr() not in given:  # neither a view nor changed in place
                    kept.copy_(new)


class RecordedGraphs:
    """Replaces training.cuda_graph.CudaGraphs. Capturing also executes the work, as its first repetition."""

    def __init__(self) -> None:
        self.n_captured = 0

    def forget(self) -> None:
        pass

    def run(self, work: Callable[[], None]) -> None:
        work()

    def capture(self, work: Callable[[], None]) -> Callable[[], None] | None:
        self.n_captured += 1
        with Recorder() as recorder:
            work()
        is_done = True

        def repeat() -> None:
            nonlocal is_done
            if not is_done:
                recorder.repeat()
            is_done = False

        return repeat


def _tensors(tree: Any) -> list[Tensor]:
    return [leaf for leaf in tree_leaves(tree) if isinstance(leaf, Tensor)]
