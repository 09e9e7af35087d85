"""Training steps as CUDA graphs: one launch for each step instead of thousands."""

from collections import Counter
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

import torch

from data.batch import Batch
from losses import REGISTERED_LOSSES
from training.methods.method import Method, StepBatches
from utils.errors import UserError
from utils.log import logger

Run = Callable[[], None]

SPARE_SHARE = 1 / 4  # share of the GPU's memory that a graph must leave free for validation
WARM_UP_STEPS = 3  # normal steps that allocate the optimizer's state, choose cuDNN's algorithms and compile kernels


class CaptureError(UserError):
    """A step cannot be captured as a CUDA graph."""


def make_step(method: Method) -> Callable[[StepBatches], None]:
    """Return the method's step, as a CUDA graph if possible. Registered losses, which may use the CPU, prevent this."""
    return CudaGraphStep(method, CudaGraphs()) if method.repeats_steps and not REGISTERED_LOSSES else method.step


@cache
def _stream() -> torch.cuda.Stream:
    return torch.cuda.Stream()


class CudaGraphs:
    """Runs and captures functions in a separate CUDA stream, as torch requires. All graphs share a memory pool."""

    def __init__(self) -> None:
        self._pool: Any = None
        torch.cuda.reset_peak_memory_stats()

    def run(self, work: Run) -> None:
        """Run `work` in the stream that is used for captures."""
        stream, current = _stream(), torch.cuda.current_stream()
        stream.wait_stream(current)
        with torch.cuda.stream(stream):
            work()
        current.wait_stream(stream)

    def forget(self) -> None:
        """Use a new memory pool for the next graph. Call this after deleting the earlier graphs."""
        self._pool = None

    def capture(self, work: Run) -> Run | None:
        """Return a function that repeats `work` on the same memory, or None if the graph would leave too little memory.

        Raises:
            RuntimeError: `work` cannot be captured. torch can then be unusable (torch 2.11: random numbers fail).
        """
        allocated, (free, total) = torch.cuda.memory_allocated(), torch.cuda.mem_get_info()
        free += torch.cuda.memory_reserved() - allocated
        step_bytes = torch.cuda.max_memory_allocated() - allocated
        if self._pool is None and free - step_bytes < SPARE_SHARE * total:
            return None
        graph = torch.cuda.CUDAGraph()
        # thread_local lets the loader's thread allocate page-locked memory during the capture
        with torch.cuda.graph(graph, pool=self._pool, stream=_stream(), capture_error_mode="thread_local"):
            work()
        self._pool = graph.pool()
        return graph.replay


class CudaGraphStep:
    """A method's step that runs normally at first, and then as a CUDA graph.

    With small images and networks, the CPU takes longer to launch kernels than the GPU takes to run them. A captured
    step must not read values from the GPU. Values that change between steps must be tensors that change in place. The
    CPU draws its random numbers before the step. If a graph would leave too little memory, or the image size changes,
    all later steps run normally.
    """

    def __init__(self, method: Method, graphs: CudaGraphs) -> None:
        self._method = method
        self._graphs = graphs
        self._frozen = self._frozen_parts()
        self._n_seen = Counter[tuple[str, object]]()
        self._shapes: str | None = None
        self._batches: list[list[Batch]] = []  # input buffers of the graphs
        self._repeats: dict[object, Run] = {}  # key: result of `draw_ahead`, and the penalties that are due
        self._may_repeat = True

    def __call__(self, batches: StepBatches) -> None:
        """Run one step. Raise CaptureError if the step cannot be captured."""
        shapes = _shapes_of(batches)
        if self._may_repeat and self._shapes not in (None, shapes):
            self._give_up("images differ in size")
        if not self._may_repeat:
            self._method.step(batches)
            return
        if (frozen := self._frozen_parts()) != self._frozen:
            self._frozen = frozen
            self._forget()
        drawn = self._method.draw_ahead(batches)
        due = self._method.discriminator_objective.due
        repeat = None if drawn is None else self._repeat((drawn, due), shapes, batches)
        if repeat is None:
            self._graphs.run(lambda: self._method.step(batches))
        else:
            repeat()
        self._method.settle()

    def _frozen_parts(self) -> Mapping[str, object]:
        return {name: network.frozen for name, network in self._method.networks.items()}

    def _repeat(self, drawn: object, shapes: str, batches: StepBatches) -> Run | None:
        """Return a function that runs the step with these batches as a graph, or None to run normally."""
        self._n_seen[shapes, drawn] += 1
        if self._n_seen[shapes, drawn] <= WARM_UP_STEPS:
            return None
        if self._shapes is None:
            self._shapes = shapes
            self._batches = [[batch.mapped(torch.Tensor.clone) for batch in group] for group in batches]
        for kept, new in zip(_flat(self._batches), _flat(batches), strict=True):
            for name, maps in kept.maps.items():
                maps.copy_(new.maps[name])
        if drawn not in self._repeats:
            try:
                repeat = self._graphs.capture(lambda: self._method.step(self._batches))
            except RuntimeError as error:
                cause: BaseException = error
                while cause.__context__ is not None:  # the first error explains the failure
                    cause = cause.__context__
                reason = str(cause).strip().partition("\n")[0]
                remedy = "Repeat the command with train.cuda_graph=false. The run continues at its newest checkpoint."
                raise CaptureError(f"a step cannot be a CUDA graph: {reason}. {remedy}") from error
            if repeat is None:
                self._give_up("it would leave too little memory")
                return None
            self._repeats[drawn] = repeat
        return self._repeats[drawn]

    def _give_up(self, reason: str) -> None:
        logger.info(f"steps are computed without a CUDA graph: {reason}")
        self._may_repeat = False
        self._forget()

    def _forget(self) -> None:
        """Release the memory of the graphs."""
        self._shapes, self._batches = None, []
        self._n_seen.clear()
        self._repeats.clear()
        self._graphs.forget()


def _flat(batches: StepBatches) -> list[Batch]:
    return [batch for group in batches for batch in group]


def _shapes_of(batches: StepBatches) -> str:
    return str([[{name: (maps.shape, maps.dtype) for name, maps in one.maps.items()} for one in g] for g in batches])
