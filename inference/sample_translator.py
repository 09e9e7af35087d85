"""The translation of samples: small ones at once; of images larger than a tile, results are written row by row.

Files of large images are read row by row where their format allows it.
"""

from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import chain, groupby, islice

from torch import Tensor

from data.batch import Batch, DataError, Sample
from data.files.pixels import ROW_SUFFIXES, StoredForm, stored_rows
from data.layout import Layout
from data.preprocessing import Preprocessing
from data.ranges import StoreError
from inference.image_store import reduced, reduced_rows
from inference.outputs import Results, Sizes
from inference.padding import PaddedSample, Padding, collected, read_padded
from inference.predictor import ImageParts, Predictor
from inference.source_values import SourceValues
from inference.tiling import Window
from utils.worker_threads import MOST_THREADS, in_order, worker_threads


@dataclass(frozen=True)
class _LargeImage:
    """An image to translate.

    preview: its name and its sources, reduced. source_size: width and height of the source.
    padded: its parts, padded for the network. window: of its translation in that of the padded one.
    """

    preview: Sample
    source_size: tuple[int, int]
    padded: ImageParts
    window: Window

    @property
    def sizes(self) -> Sizes:
        """Width and height of its translation, and of its source."""
        window = self.window
        return (window.right - window.left, window.bottom - window.top), self.source_size


@dataclass(frozen=True)
class SampleTranslator:
    """Translates the samples of a layout; those larger than a tile in the memory of a row of tiles.

    results: gets the translations. values: gets the sources; large ones reduced.
    source_form: of sources that are read as they are stored; None for others, which are read at once.
    keeps_sizes: whether images are translated at their own size, as files that are read in parts have to be.
    problems: of samples that cannot be used, which are skipped. lost: errors of a store that gives no bytes.
    """

    layout: Layout
    predictor: Predictor
    preprocessing: Preprocessing
    results: Results
    values: SourceValues
    source_form: StoredForm | None
    keeps_sizes: bool
    problems: list[str] = field(default_factory=list)
    lost: list[StoreError] = field(default_factory=list)

    def translate(self, indices: Sequence[int], batch_size: int) -> Iterator[int]:
        """Translate samples, up to `batch_size` together; yield how many were done. Those read in parts come last.

        While the generator computes, other threads read the next samples, and measure and write the last ones.
        """
        in_parts = {index for index in indices if self.is_read_in_parts(index)}
        at_once = [index for index in indices if index not in in_parts]
        with worker_threads() as pool:
            most = 1 if self.predictor.tiles else MOST_THREADS + 1  # tiles are for images that fill the memory
            reads = self._usable(in_order(pool, self._read, at_once, most))
            translated = chain.from_iterable(map(self._translated, _batches(reads, batch_size)))
            for written in in_order(pool, self._write, translated, most):
                written.result()
                yield 1
        for index in sorted(in_parts):
            with collected(self.problems), self._opened(index) as image:
                self._translate_in_bands(image)
            yield 1

    def _read(self, index: int) -> PaddedSample:
        if self.lost:  # the store would be waited for again
            raise self.lost[0]
        try:
            return read_padded(self.layout, self.preprocessing, index, keeps_size=self.keeps_sizes)
        except StoreError as error:
            self.lost.append(error)
            raise

    def _translated(self, batch: Sequence[PaddedSample]) -> Iterator[tuple[Sample, Tensor] | None]:
        """Yield the samples of a batch with their translations; None for one that is written already."""
        if batch[0].sample.target is None and self.predictor.tiles_for(*batch[0].padded.source.shape[-2:]):
            self._translate_in_bands(self._in_memory(*batch))
            yield None
            return
        fakes = self.predictor.translate(Batch.of([read.padded for read in batch]))
        for read, fake in zip(batch, fakes, strict=True):
            self.values.add(read.sample)
            self.results.add_to_baseline(read.sample)
            yield read.sample, read.window.cut(fake)

    def _write(self, translated: tuple[Sample, Tensor] | None) -> None:
        if translated:
            self.results.add(*translated)

    def keep(self, index: int) -> bool:
        """Record sample `index`, whose image exists; return False where that is incomplete, to be translated again."""
        with collected(self.problems):
            if self.is_read_in_parts(index):
                with self._opened(index) as image:
                    return self.results.keep(image.preview, image.sizes)
            return self.results.keep(self._read(index).sample)
        return True

    def _usable(self, reads: Iterable[Future[PaddedSample]]) -> Iterator[PaddedSample]:
        """Yield the samples that can be read."""
        for read in reads:
            with collected(self.problems):
                yield read.result()

    def is_read_in_parts(self, index: int) -> bool:
        """Return whether sample `index` is a TIFF or array larger than a tile, without other maps."""
        if self.source_form is None or not self.keeps_sizes or self.predictor.tiles is None:
            return False
        files = self.layout.provenance(index).files
        if list(files) != ["source"] or files["source"].suffix.lower() not in ROW_SUFFIXES:
            return False
        try:
            with stored_rows(files["source"], self.source_form) as rows:
                return self.predictor.tiles_for(rows.height, rows.width) is not None
        except DataError:  # reported when the sample's turn comes
            return False

    def _in_memory(self, read: PaddedSample) -> _LargeImage:
        sample, images = read.sample, read.sample.source_images
        source = reduced(sample.source, is_ids=self.layout.n_classes > 0)
        further = None if images is None else reduced(images)
        preview = Sample(sample.name, source=source, source_images=further)
        height, width = sample.source.shape[-2:]
        return _LargeImage(preview, (width, height), ImageParts.of(Batch.of([read.padded])), read.window)

    @contextmanager
    def _opened(self, index: int) -> Iterator[_LargeImage]:
        """Open sample `index`, and read it once: hours of work do not end at damage in its last row."""
        assert self.source_form is not None
        name = self.layout.names[index]
        with stored_rows(self.layout.provenance(index).files["source"], self.source_form) as rows:
            padding = Padding.of(name, rows.height, rows.width, self.preprocessing)
            preview = Sample(name, source=reduced_rows(rows))
            parts = ImageParts.of_rows(name, rows, padding)
            yield _LargeImage(preview, (rows.width, rows.height), parts, padding.window)

    def _translate_in_bands(self, image: _LargeImage) -> None:
        self.values.add(image.preview)
        bands = _cut(self.predictor.translate_in_bands(image.padded), image.window)
        self.results.add_in_bands(image.preview, image.sizes, bands)


def _batches(reads: Iterator[PaddedSample], batch_size: int) -> Iterator[list[PaddedSample]]:
    """Yield samples in order, up to `batch_size` successive ones of equal padded size together."""
    for _, alike in groupby(reads, key=lambda read: read.padded.source.shape):
        while batch := list(islice(alike, batch_size)):
            yield batch


def _cut(bands: Iterator[Tensor], window: Window) -> Iterator[Tensor]:
    """Yield the parts of bands (C, h, W) that are inside a window."""
    top = 0
    for band in bands:
        rows = slice(max(window.top - top, 0), max(window.bottom - top, 0))
        top += band.shape[1]
        if (part := band[:, rows, window.left : window.right]).shape[1]:
            yield part
