"""The translation of samples: small ones at once; of images larger than a tile, results are written row by row.

Files of large images are read row by row where their format allows it.
"""

from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from itertools import chain, groupby, islice

from torch import Tensor

from data.batch import Batch, DataError, Sample
from data.files.pixels import ROW_SUFFIXES, StoredForm, stored_rows
from data.layout import Layout
from data.preprocessing import Preprocessing
from inference.image_store import reduced, reduced_rows
from inference.no_data import FilledRows, NoData, NoDataRule, scaled_rows
from inference.outputs import Results, Sizes
from inference.padding import PaddedSample, Padding, collected, read_padded
from inference.pass_memory import bytes_of_device
from inference.predictor import ImageParts, Predictor
from inference.source_values import SourceValues
from inference.tiling import Window
from utils.log import logger
from utils.worker_threads import MOST_THREADS, in_order, worker_threads

_SMALL = 2**22  # pixels of a batch; fewer are translated without an estimate of the memory
_PROBE = 256  # side of the part that gives the estimate, in pixels


@dataclass(frozen=True)
class _LargeImage:
    """An image to translate.

    preview: its name and its sources, reduced. source_size: width and height of the source.
    padded: Its parts, padded for the network. window: Its translation within the translation of the padded image.
    no_data: Pixels without data of its translation, or None.
    """

    preview: Sample
    source_size: tuple[int, int]
    padded: ImageParts
    window: Window
    no_data: NoData | None = None

    @property
    def sizes(self) -> Sizes:
        """Width and height of its translation, and of its source."""
        window = self.window
        return (window.right - window.left, window.bottom - window.top), self.source_size


@dataclass(frozen=True)
class SampleTranslator:
    """Translates the samples of a layout; those larger than a tile in the memory of a row of tiles.

    results: gets the translations. values: gets the sources; large ones reduced.
    source_form: Form of sources that are not 8-bit RGB, with pixels without data; None for other sources.
    no_data: Finds and fills pixels without data.
    keeps_sizes: whether images are translated at their own size, as files that are read in parts have to be.
    problems: Problems of samples that cannot be used, which are skipped.
    warned: Name of the image that a warning about its size named.
    """

    layout: Layout
    predictor: Predictor
    preprocessing: Preprocessing
    results: Results
    values: SourceValues
    source_form: StoredForm | None
    keeps_sizes: bool
    no_data: NoDataRule = field(default_factory=NoDataRule)
    problems: list[str] = field(default_factory=list)
    warned: list[str] = field(default_factory=list)

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
        return read_padded(self.layout, self.preprocessing, index, keeps_size=self.keeps_sizes, no_data=self.no_data)

    def _translated(self, batch: Sequence[PaddedSample]) -> Iterator[tuple[Sample, Tensor, NoData | None] | None]:
        """Yield the samples of a batch with their translations; None for one that is written already."""
        size = batch[0].padded.source.shape[-2:]
        if self.predictor.tiles_for(*size):
            if batch[0].sample.target is None:
                self._translate_in_bands(self._in_memory(*batch))
                yield None
                return
        elif problem := self._lack_of_memory(batch):
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
            cut = read.window.cut(fake)
            yield read.sample, cut, self._marks(read, cut.shape[1], cut.shape[2])

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

    def _marks(self, read: PaddedSample, height: int, width: int) -> NoData | None:
        """Return the pixels without data of a translation of `height` x `width` pixels."""
        missing, (_, *sides) = read.missing, read.sample.source.shape

        def found(top: int, bottom: int) -> Tensor | None:
            return None if missing is None else missing[top:bottom]

        scaled = scaled_rows(found, (sides[0], sides[1]), (height, width))
        return self.no_data.marks(read.no_data, scaled, has_missing=missing is not None)

    def _write(self, translated: tuple[Sample, Tensor, NoData | None] | None) -> None:
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
        window = read.window
        marks = self._marks(read, window.bottom - window.top, window.right - window.left)
        return _LargeImage(preview, (width, height), ImageParts.of(Batch.of([read.padded])), window, marks)

    @contextmanager
    def _opened(self, index: int) -> Iterator[_LargeImage]:
        """Open sample `index`, and read it once: hours of work do not end at damage in its last row."""
        assert self.source_form is not None
        name = self.layout.names[index]
        files = self.layout.provenance(index).files
        with stored_rows(files["source"], self.source_form) as stored:
            filled = FilledRows(stored, self.no_data, self.no_data.value_in(files))
            rows, padding = (
                replace(stored, read=filled.read),
                Padding.of(name, stored.height, stored.width, self.preprocessing),
            )
            preview, parts = Sample(name, source=reduced_rows(rows)), ImageParts.of_rows(name, rows, padding)
            image = _LargeImage(preview, (rows.width, rows.height), parts, padding.window)
            (width, height), _ = image.sizes
            missing = scaled_rows(filled.missing, (rows.height, rows.width), (height, width))
            yield replace(image, no_data=self.no_data.marks(filled.value, missing, has_missing=filled.has_missing))

    def _translate_in_bands(self, image: _LargeImage) -> None:
        width, height = image.source_size
        self._warn_of_statistics(image.preview.name, height, width)
        self.values.add(image.preview)
        bands = _cut(self.predictor.translate_in_bands(image.padded), image.window)
        self.results.add_in_bands(image.preview, image.sizes, bands, image.no_data)


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
