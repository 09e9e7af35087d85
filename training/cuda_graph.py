"""A training step that a GPU repeats by itself, as a CUDA graph."""

from collections import Counter
from collections.abc import Callable, Sequence

import torch

from data.batch import Batch

WARM_UP_STEPS = 3  # make what is made at first use: the optimizer's state, cuDNN's choices, compiled kernels

Step = Callable[[Sequence[Sequence[Batch]]], None]
Run = Callable[[], None]
Form = tuple[tuple[torch.Size, torch.dtype], ...]


class CudaGraphs:
    """Runs and captures work in one stream beside the current one, as torch asks for."""

    def __init__(self) -> None:
        self._stream = torch.cuda.Stream()

    def run(self, work: Run) -> None:
        """Do the work now, as the GPU will be seen doing it when it is captured."""
        self._stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self._stream):
            work()
        torch.cuda.current_stream().wait_stream(self._stream)

    def capture(self, work: Run) -> Run:
        """What does the work again each time that it is called, on the very memory; now nothing is done."""
        graph = torch.cuda.CUDAGraph()
        # thread_local: the loader's thread may go on taking page-locked memory meanwhile
        with torch.cuda.graph(graph, stream=self._stream, capture_error_mode="thread_local"):
            work()
        return graph.replay


class CudaGraphStep:
    """A step that is made as ever at first, and repeated from a CUDA graph then: one launch instead of thousands.

    Small networks, whose kernels take less time than their launches, gain by it. The step may ask for no value of the
    GPU, and what changes between steps has to be a tensor that changes in place. Batches of another form than the first
    that came WARM_UP_STEPS times (images of another size, say) are stepped as ever.
    """

    def __init__(self, step: Step, graphs: CudaGraphs) -> None:
        self._step = step
        self._graphs = graphs
        self._n_seen: Counter[Form] = Counter()
        self._form: Form = ()
        self._taken: list[list[Batch]] = []  # the batches whose memory the graph reads
        self._repeat: Run | None = None

    def __call__(self, taken: Sequence[Sequence[Batch]]) -> None:
        """One step on batches on the GPU, grouped as the step wants them."""
        form = _form(taken)
        if self._repeat is None and self._n_seen[form] == WARM_UP_STEPS:
            self._form, self._taken = form, [[batch.clone() for batch in batches] for batches in taken]
            self._repeat = self._graphs.capture(lambda: self._step(self._taken))
        self._n_seen[form] += 1
        if self._repeat is None or form != self._form:
            self._graphs.run(lambda: self._step(taken))
            return
        for kept, new in zip(_batches(self._taken), _batches(taken), strict=True):
            kept.copy_(new)
        self._repeat()


def _batches(taken: Sequence[Sequence[Batch]]) -> list[Batch]:
    return [batch for batches in taken for batch in batches]


def _form(taken: Sequence[Sequence[Batch]]) -> Form:
    return tuple((tensor.shape, tensor.dtype) for batch in _batches(taken) for tensor in batch.maps)
