"""The translation of samples: read, padded, translated in batches and written."""

from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from itertools import chain, groupby, islice

from torch import Tensor

from data.batch import Batch, Sample
from data.layout import Layout
from data.preprocessing import Preprocessing
from inference.no_data import NoData, NoDataRule
from inference.outputs import Results
from inference.padding import PaddedSample, collected, read_padded
from inference.pass_memory import bytes_of_device
from inference.predictor import Predictor
from inference.source_values import SourceValues
from inference.tiling import Window
from utils.log import logger
from utils.worker_threads import MOST_THREADS, in_order, worker_threads

_SMALL = 2**22  # pixels of a batch; fewer are translated without an estimate of the memory
_PROBE = 256  # side of the part that gives the estimate, in pixels


@dataclass(frozen=True)
class SampleTranslator:
    """Translates the samples of a layout.

    results: Gets the translations. values: Gets the sources.
    no_data: Finds and fills pixels without data.
    keeps_sizes: Whether images are translated at their own size.
    problems: Problems of samples that cannot be used, which are skipped.
    warned: Name of the image that a warning about its size named.
    """

    layout: Layout
    predictor: Predictor
    preprocessing: Preprocessing
    results: Results
    values: SourceValues
    keeps_sizes: bool
    no_data: NoDataRule = field(default_factory=NoDataRule)
    problems: list[str] = field(default_factory=list)
    warned: list[str] = field(default_factory=list)

    def translate(self, indices: Sequence[int], batch_size: int) -> Iterator[int]:
        """Translate samples, up to `batch_size` together; yield how many were done.

        While the generator computes, other threads read the next samples, and measure and write the last ones.
        """
        with worker_threads() as pool:
            most = 1 if self.predictor.tiles else MOST_THREADS + 1  # tiles are for images that fill the memory
            reads = self._usable(in_order(pool, self._read, indices, most))
            translated = chain.from_iterable(map(self._translated, _batches(reads, batch_size)))
            for written in in_order(pool, self._write, translated, most):
                written.result()
                yield 1

    def _read(self, index: int) -> PaddedSample:
        return read_padded(self.layout, self.preprocessing, index, keeps_size=self.keeps_sizes, no_data=self.no_data)

    def _translated(self, batch: Sequence[PaddedSample]) -> Iterator[tuple[Sample, Tensor, NoData | None] | None]:
        """Yield the samples of a batch with their translations; None for one that takes too much memory."""
        tiles = self.predictor.tiles_for(*batch[0].padded.source.shape[-2:])
        if not tiles and (problem := self._lack_of_memory(batch)):
            if len(batch) > 1:
                yield from chain.from_iterable(self._translated([read]) for read in batch)
            else:
                self.problems.append(problem)
                yield None
            return
        self._warn_of_statistics(batch[0].sample.name, *batch[0].sample.source.shape[-2:])
        fakes = self.predictor.translate(Batch.of([read.padded for read in batch]))
        for read, fake in zip(batch, fakes, strict=True):
            self.values.add(read.sample)
            self.results.add_to_baseline(read.sample)
            yield read.sample, read.window.cut(fake), self.no_data.marks(read.no_data, read.missing)

    def _lack_of_memory(self, batch: Sequence[PaddedSample]) -> str | None:
        """Return what is wrong if a batch is too large to be translated in one piece."""
        height, width = batch[0].padded.source.shape[-2:]
        n_pixels = len(batch) * height * width
        if n_pixels <= _SMALL:
            return None
        side = max(_PROBE // (m := self.preprocessing.size_multiple) * m, m, self.preprocessing.min_size)
        window = Window(0, min(side, height), 0, min(side, width))
        part = Batch.of([batch[0].padded]).mapped(lambda image: window.cut(image).clone())  # no view of the full image
        needed, there_is = n_pixels * self.predictor.bytes_per_pixel(part), bytes_of_device(self.predictor.device)
        if needed <= there_is:
            return None
        return (
            f"{batch[0].sample.name}: a translation of {width}x{height} pixels in one piece needs about "
            f"{needed / 1e9:.3g} GB, there are {there_is / 1e9:.3g} GB. Add --tile 1024."
        )

    def _warn_of_statistics(self, name: str, height: int, width: int) -> None:
        """Warn once if instance norm sees an image that is much larger than the crops of the training."""
        rule = self.preprocessing
        is_large = rule.mode.endswith("crop") and height * width > 4 * rule.crop_height * rule.crop_width
        if self.warned or not is_large or not self.predictor.uses_statistics_of_images:
            return
        self.warned.append(name)
        logger.warning(
            f"{name}: {width}x{height} pixels are more than four times the training crop of {rule.crop_width}x"
            f"{rule.crop_height}, and instance norm uses statistics of the whole image, so values may be wrong. "
            f"Compare with --norm-window {2 * max(rule.crop_width, rule.crop_height)}, or train with "
            "generator.norm=batch."
        )

    def _write(self, translated: tuple[Sample, Tensor, NoData | None] | None) -> None:
        if translated:
            self.results.add(*translated)

    def keep(self, index: int) -> bool:
        """Record sample `index`, whose image exists; return False where that is incomplete, to be translated again."""
        with collected(self.problems):
            return self.results.keep(self._read(index).sample)
        return True

    def _usable(self, reads: Iterable[Future[PaddedSample]]) -> Iterator[PaddedSample]:
        """Yield the samples that can be read."""
        for read in reads:
            with collected(self.problems):
                yield read.result()


def _batches(reads: Iterator[PaddedSample], batch_size: int) -> Iterator[list[PaddedSample]]:
    """Yield samples in order, up to `batch_size` successive ones of equal padded size together."""
    for _, alike in groupby(reads, key=lambda read: read.padded.source.shape):
        while batch := list(islice(alike, batch_size)):
            yield batch
