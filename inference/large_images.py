"""Images larger than a tile: their translations are written row by row, and files are read so where they can be."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from torch import Tensor

from data.batch import Batch, DataError, Sample
from data.files.stored_images import ROW_SUFFIXES, StoredForm, stored_rows
from data.layout import Layout
from data.preprocessing import Preprocessing
from inference.image_store import reduced, reduced_rows
from inference.outputs import Results, Sizes
from inference.padding import PaddedSample, Padding
from inference.predictor import ImageParts, Predictor
from inference.source_values import SourceValues
from inference.windows import Window


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
class LargeImages:
    """Translates images larger than a tile, in the memory of a row of tiles beside what is read at once.

    layout: the samples. predictor: without tiles, no image counts as large.
    results: gets the translations. values: gets the sources, reduced.
    source_form: of sources that are read as they are stored; None for others, which are read at once.
    keeps_sizes: whether images are translated at their own size, as files that are read in parts have to be.
    """

    layout: Layout
    predictor: Predictor
    preprocessing: Preprocessing
    results: Results
    values: SourceValues
    source_form: StoredForm | None
    keeps_sizes: bool

    def are_read_in_parts(self, index: int) -> bool:
        """Return whether sample `index` is a TIFF or array larger than a tile, without other maps."""
        if self.source_form is None or not self.keeps_sizes or self.predictor.tiles is None:
            return False
        origin = self.layout.origin(index)
        if list(origin.kinds) != ["source"] or origin.files[0].suffix.lower() not in ROW_SUFFIXES:
            return False
        try:
            with stored_rows(origin.files[0], self.source_form) as rows:
                return self._is_large(rows.height, rows.width)
        except DataError:  # reported when its turn comes
            return False

    def takes(self, read: PaddedSample) -> bool:
        """Return whether a sample in memory is larger than a tile, and is not measured."""
        return read.sample.target is None and self._is_large(*read.padded.source.shape[-2:])

    def add(self, index: int) -> None:
        """Translate sample `index`, which is read in parts.

        Raises:
            DataError: its file is damaged, or holds values that cannot be used.
        """
        with self._opened(index) as image:
            self._translate(image)

    def add_loaded(self, read: PaddedSample) -> None:
        """Translate a sample in memory."""
        sample, images = read.sample, read.sample.source_images
        preview = Sample(
            sample.name,
            reduced(sample.source, is_ids=self.layout.n_classes > 0),
            None,
            None,
            source_images=None if images is None else reduced(images),
        )
        height, width = sample.source.shape[-2:]
        self._translate(_LargeImage(preview, (width, height), ImageParts.of(Batch.of([read.padded])), read.window))

    def keep(self, index: int) -> bool:
        """Record the existing translation of sample `index`, which is read in parts; see `Results.keep`."""
        with self._opened(index) as image:
            return self.results.keep(image.preview, self.predictor.show_source(image.preview), image.sizes)

    def _is_large(self, height: int, width: int) -> bool:
        longest = max(height, width) * max(1.0, self.preprocessing.target_scale)
        return self.predictor.tiles is not None and longest > self.predictor.tiles.side

    @contextmanager
    def _opened(self, index: int) -> Iterator[_LargeImage]:
        """Open sample `index`, and read it once: hours of work do not end at damage in its last row."""
        assert self.source_form is not None
        name, (path, *_) = self.layout.names[index], self.layout.origin(index).files
        rule = self.preprocessing
        with stored_rows(path, self.source_form) as rows:
            padding = Padding.of(rows.height, rows.width, rule.size_multiple, rule.min_size, rule.target_scale)
            preview = Sample(name, reduced_rows(rows), None, None)
            parts = ImageParts.of_rows(name, rows, padding)
            yield _LargeImage(preview, (rows.width, rows.height), parts, padding.window)

    def _translate(self, image: _LargeImage) -> None:
        self.values.add(image.preview)
        bands = _cut(self.predictor.translate_in_bands(image.padded), image.window)
        self.results.add_in_bands(image.preview, self.predictor.show_source(image.preview), image.sizes, bands)


def _cut(bands: Iterator[Tensor], window: Window) -> Iterator[Tensor]:
    """Yield the parts of bands (C, h, W) that are inside a window."""
    top = 0
    for band in bands:
        rows = slice(max(window.top - top, 0), max(window.bottom - top, 0))
        top += band.shape[1]
        if (part := band[:, rows, window.left : window.right]).shape[1]:
            yield part
