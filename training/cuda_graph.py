"""A step that a GPU repeats as a CUDA graph: one launch instead of thousands."""

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

SPARE_SHARE = 1 / 4  # share of the GPU's memory for validation, which cannot use the memory of a graph
WARM_UP_STEPS = 3  # they allocate the optimizer's state, choose cuDNN's algorithms and compile kernels


class CaptureError(UserError):
    """A step cannot be captured as a CUDA graph."""


def make_step(method: Method) -> Callable[[StepBatches], None]:
    """Return the method's step, as a CUDA graph if possible. Registered losses may compute on the CPU: no graph."""
    return CudaGraphStep(method, CudaGraphs()) if method.repeats_steps and not REGISTERED_LOSSES else method.step


@cache
def _stream() -> torch.cuda.Stream:
    return torch.cuda.Stream()


class CudaGraphs:
    """Runs and captures work in a stream of its own, as torch requires. Graphs share memory."""

    def __init__(self) -> None:
        self._pool: Any = None
        torch.cuda.reset_peak_memory_stats()

    def run(self, work: Run) -> None:
        """Do the work in the stream that captures it later."""
        stream, current = _stream(), torch.cuda.current_stream()
        stream.wait_stream(current)
        with torch.cuda.stream(stream):
            work()
        current.wait_stream(stream)

    def forget(self) -> None:
        """Use new memory for the next graph, after the earlier graphs were deleted."""
        self._pool = None

    def capture(self, work: Run) -> Run | None:
        """Return a function that repeats the work on the same memory, or None if too little memory would be left.

        Raises:
            RuntimeError: The work cannot be captured. torch may then be unusable (2.11: random numbers).
        """
        allocated, (free, total) = torch.cuda.memory_allocated(), torch.cuda.mem_get_info()
        free += torch.cuda.memory_reserved() - allocated
        of_a_step = torch.cuda.max_memory_allocated() - allocated
        if self._pool is None and free - of_a_step < SPARE_SHARE * total:
            return None
        graph = torch.cuda.CUDAGraph()
        # thread_local: the loader's thread may continue to take page-locked memory meanwhile
        with torch.cuda.graph(graph, pool=self._pool, stream=_stream(), capture_error_mode="thread_local"):
            work()
        self._pool = graph.pool()
        return graph.replay


class CudaGraphStep:
    """A method's step that is computed normally at first, and then repeated as a CUDA graph.

    With small images and networks, the CPU needs longer to launch kernels than a GPU to run them. A step may not read a
    value from the GPU. Everything that changes between steps must be a tensor that changes in place. The CPU draws its
    random numbers before the step. Steps are computed normally if the graph would leave too little memory, and as soon
    as a batch has images of another size.
    """

    def __init__(self, method: Method, graphs: CudaGraphs) -> None:
        self._method = method
        self._graphs = graphs
        self._trained = self._what_is_trained()
        self._n_seen = Counter[tuple[str, object]]()
        self._form: str | None = None
        self._batches: list[list[Batch]] = []  # the graphs read their memory
        self._repeats: dict[object, Run] = {}  # key: result of `draw_ahead`, and the penalties
        self._may_repeat = True

    def __call__(self, batches: StepBatches) -> None:
        """Make one step. Raise CaptureError if it cannot be captured."""
        form = _form(batches)
        if self._may_repeat and self._form not in (None, form):
            self._give_up("images differ in size")
        if not self._may_repeat:
            self._method.step(batches)
            return
        if (trained := self._what_is_trained()) != self._trained:
            self._trained = trained
            self._forget()
        drawn = self._method.draw_ahead(batches)
        due = self._method.discriminator_objective.due
        repeat = None if drawn is None else self._repeat((drawn, due), form, batches)
        if repeat is None:
            self._graphs.run(lambda: self._method.step(batches))
        else:
            repeat()
        self._method.settle()

    def _what_is_trained(self) -> Mapping[str, object]:
        return {name: network.frozen for name, network in self._method.networks.items()}

    def _repeat(self, drawn: object, form: str, batches: StepBatches) -> Run | None:
        """Return a function that repeats the step with these batches, or None before enough steps of their form."""
        self._n_seen[form, drawn] += 1
        if self._n_seen[form, drawn] <= WARM_UP_STEPS:
            return None
        if self._form is None:
            self._form = form
            self._batches = [[batch.mapped(torch.Tensor.clone) for batch in group] for group in batches]
        for kept, new in zip(_flat(self._batches), _flat(batches), strict=True):
            for name, maps in kept.maps.items():
                maps.copy_(new.maps[name])
        if drawn not in self._repeats:
            try:
                repeat = self._graphs.capture(lambda: self._method.step(self._batches))
            except RuntimeError as error:
                cause: BaseException = error
                while cause.__context__ is not None:  # torch raises another error from it
                    cause = cause.__context__
                reason = str(cause).strip().partition("\n")[0]
                remedy = "Repeat the command with train.cuda_graph=false. It continues from the newest checkpoint."
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
        self._form, self._batches = None, []
        self._n_seen.clear()
        self._repeats.clear()
        self._graphs.forget()


def _flat(batches: StepBatches) -> list[Batch]:
    return [batch for group in batches for batch in group]


def _form(batches: StepBatches) -> str:
    return str([[{name: (maps.shape, maps.dtype) for name, maps in one.maps.items()} for one in g] for g in batches])
