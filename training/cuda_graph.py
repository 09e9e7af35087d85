"""Experimental: a training step that a GPU repeats by itself, as a CUDA graph."""

from collections import Counter
from collections.abc import Callable

import torch

from data.batch import Batch
from training.batches import StepBatches

WARM_UP_STEPS = 3  # make what is made at first use: the optimizer's state, cuDNN's choices, compiled kernels

Step = Callable[[StepBatches], None]
Run = Callable[[], None]
Form = tuple[object, ...]


class CudaGraphs:
    """Runs and captures work in one stream beside the current one, as torch asks for."""

    def __init__(self) -> None:
        self._stream = torch.cuda.Stream()

    def run(self, work: Run) -> None:
        """Do the work now, in the stream in which it is captured later."""
        self._stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self._stream):
            work()
        torch.cuda.current_stream().wait_stream(self._stream)

    def capture(self, work: Run) -> Run:
        """Return a function that repeats the work on the same memory; nothing is computed now."""
        graph = torch.cuda.CUDAGraph()
        # thread_local: the loader's thread may continue to take page-locked memory meanwhile
        with torch.cuda.graph(graph, stream=self._stream, capture_error_mode="thread_local"):
            work()
        return graph.replay


class CudaGraphStep:
    """A step that is computed eagerly at first, and then repeated from a CUDA graph: one launch instead of thousands.

    Small networks, whose kernels take less time than their launches, gain by it. The step may not ask the GPU for a
    value, and what changes between steps has to be a tensor that changes in place. Batches of another form than the
    first one that came WARM_UP_STEPS times (images of another size, say) are stepped eagerly.

    trained: what is trained at present; where that changes, the graph is captured again.
    """

    def __init__(self, step: Step, graphs: CudaGraphs, *, trained: Callable[[], object] = lambda: None) -> None:
        self._step = step
        self._graphs = graphs
        self._trained = trained
        self._seen_trained: object = None
        self._n_seen: Counter[Form] = Counter()
        self._form: Form = ()
        self._batches: list[list[Batch]] = []  # whose memory the graph reads
        self._repeat: Run | None = None

    def __call__(self, batches: StepBatches) -> None:
        """Make one step."""
        if (trained := self._trained()) != self._seen_trained:
            self._seen_trained, self._repeat = trained, None
            self._n_seen.clear()
        form = _form(batches)
        if self._repeat is None and self._n_seen[form] == WARM_UP_STEPS:
            self._form, self._batches = form, [[batch.clone() for batch in group] for group in batches]
            self._repeat = self._graphs.capture(lambda: self._step(self._batches))
        self._n_seen[form] += 1
        if self._repeat is None or form != self._form:
            self._graphs.run(lambda: self._step(batches))
            return
        for kept, new in zip(_flat(self._batches), _flat(batches), strict=True):
            kept.copy_(new)
        self._repeat()


def _flat(batches: StepBatches) -> list[Batch]:
    return [batch for group in batches for batch in group]


def _form(batches: StepBatches) -> Form:
    return tuple((tensor.shape, tensor.dtype) for batch in _flat(batches) for tensor in batch.maps)
