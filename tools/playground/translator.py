"""Translates pictures one at a time, each as test.py translates a file of its own."""

from concurrent.futures import CancelledError, Future, ThreadPoolExecutor

from torch import Tensor

from data.batch import Batch, Sample
from data.preprocessing import Preprocessing
from inference.padding import padded
from inference.predictor import Predictor


class Translator:
    """Translates pictures in a thread of its own; those that come meanwhile wait their turn.

    One thread, because each thread that computes gets a pool of threads from torch.
    """

    def __init__(self, predictor: Predictor, preprocessing: Preprocessing) -> None:
        self._predictor = predictor
        self._preprocessing = preprocessing
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="translator")
        self._is_closed = False
        self._newest: Future[Tensor] | None = None

    @property
    def is_busy(self) -> bool:
        """Return whether a picture is translated now, or waits."""
        return self._newest is not None and not self._newest.done()

    def translate(self, sample: Sample, seed: int) -> Tensor:
        """Return (3, H, W) uint8 RGB to look at, of the size of the sample times the generator's scale.

        seed: of features and noise, where the generator takes them.

        Raises:
            CancelledError: the translator is closed before its turn comes.
        """
        if self._is_closed:
            raise CancelledError
        self._newest = turn = self._thread.submit(self._translate, sample, seed)
        return turn.result()

    def _translate(self, sample: Sample, seed: int) -> Tensor:
        rule = self._preprocessing
        enlarged, window = padded(sample, rule.size_multiple, rule.min_size, rule.target_scale)
        translated = window.cut(self._predictor.with_seed(seed).translate(Batch.of([enlarged]))[0])
        return self._predictor.show_target(translated).contiguous()

    def close(self) -> None:
        """Wait for the translation that is computed, and leave out those that wait."""
        self._is_closed = True
        self._thread.shutdown(cancel_futures=True)
