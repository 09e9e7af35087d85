"""The results of test.py: images, a contact sheet, a gallery and metrics.json."""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
from torch import Tensor

from configs.splits import HELD_BACK, TRAIN
from data.batch import DataError, Sample
from data.files.image_files import write_png
from data.files.pixel_rows import Bands
from data.files.size_guard import TooLargeError
from data.layout import Layout
from data.store import File
from inference.contact_sheet import SHEET_WIDTH, SheetSample, contact_sheet, thumbnail
from inference.image_store import ImageStore, Reduction
from inference.output_folder import INDEX, KINDS, METRICS, SHEET, gallery_image, is_foreign
from metrics.constant_color import ConstantColorBaseline
from metrics.evaluator import TITLES, Evaluator, Measurement, Summary, shown
from metrics.segmentation import class_table
from utils.atomic_file import path_in_errors
from utils.distributed import World
from utils.gallery import Row, Swatch, write_gallery
from utils.image_grid import difference
from utils.log import logger
from utils.strict_json import strict_json
from utils.text import counted, printable

SHEET_SAMPLES = 24
FEW_FOR_FID = 2048  # images: with fewer, the covariance of 2048 features does not have full rank
SMALL = 16  # pixels of height or width
MEASURED_ON = {TRAIN: "training samples", HELD_BACK: "samples held back from training"}  # by split
GALLERY_WIDTH = 512  # pixels; browsers cannot open a page of thousands of large images


Sizes = tuple[tuple[int, int], tuple[int, int]]
"""Width and height of a translation, and those of its source."""


@dataclass(frozen=True)
class _Record:
    """The parts of a translated sample that the final report needs.

    size, source_size: width and height of the translation and of its source.
    """

    row: Row
    size: tuple[int, int]
    source_size: tuple[int, int]
    measured: Measurement | None
    on_sheet: SheetSample | None


class Results:
    """Writes the results of one process; at the end the main process writes the report on those of all processes.

    output: the folder of `prepare_output`. layout: the samples of all processes.
    store: the files of the translated images.
    show_target: returns a target or a translation as (3, H, W) uint8 RGB, to be compared with another; see Predictor.
    weights_of: returns the weights of a sample's pixels, (1, H, W) float32, or None; see Predictor.
    legend: the classes of label maps, for the gallery.
    """

    def __init__(
        self,
        output: Path,
        layout: Layout,
        evaluator: Evaluator,
        store: ImageStore,
        show_target: Callable[[Tensor, Tensor | None], Tensor],
        weights_of: Callable[[Sample], Tensor | None] = lambda _sample: None,
        legend: Sequence[Swatch] = (),
    ) -> None:
        self._output = output
        self._evaluator = evaluator
        self._names = layout.names
        self._on_sheet = frozenset(layout.names[:SHEET_SAMPLES])
        self._store = store
        self._show_target = show_target
        self._weights_of = weights_of
        self._layout = layout
        self._legend = legend
        self._indices = {name: index for index, name in enumerate(layout.names)}
        n_channels = store.form.n_channels if store.form else 3
        self._baseline = ConstantColorBaseline(layout.n_classes, 3 if n_channels == 1 else n_channels)
        self._records: dict[str, _Record] = {}
        self._n_kept = 0
        self._n_foreign = 0
        self._n_resized = 0

    def add(self, sample: Sample, shown_source: Tensor, fake: Tensor) -> None:
        """Write a translated image and its images in the gallery; `shown_source` is (3, H, W) uint8."""
        self._record(sample, shown_source, fake)
        # after its source in the gallery: see is_foreign
        self._store.write(self._file(sample.name), fake, self._source_file(sample.name))

    def add_in_bands(self, preview: Sample, shown_source: Tensor, sizes: Sizes, fake: Iterator[Tensor]) -> None:
        """Write a translated image that is too large for the memory, and its images in the gallery.

        preview: the sample, its source reduced, without a target. shown_source: (3, h, w) uint8, reduced too.
        fake: the translation from top to bottom, as parts (C, h, W) of successive rows.
        """
        ((width, height), _), first = sizes, next(fake)
        reduction = Reduction(height, width)

        def parts() -> Iterator[np.ndarray]:
            for part in chain([first], fake):
                reduction.add(part)
                yield part.numpy()

        name = preview.name
        write_png(self._output / gallery_image("source", name), thumbnail(shown_source, GALLERY_WIDTH))
        image = Bands((len(first), height, width), first.numpy().dtype, parts())
        self._store.write_bands(self._file(name), image, self._source_file(name))
        self._record(preview, shown_source, reduction.image(), sizes)

    def _source_file(self, name: str) -> File | None:
        """Return the file of a sample's source; None where it is drawn."""
        return next(iter(self._layout.origin(self._indices[name]).files), None)

    def _file(self, name: str) -> Path:
        return self._output / f"{name}{self._store.suffix}"

    def keep(self, sample: Sample, shown_source: Tensor, sizes: Sizes | None = None) -> bool:
        """Record the existing image of a sample as its translation; one that test.py did not write is only counted.

        sizes: where the source, and what is shown of it, is reduced.

        Returns whether there is nothing to translate: False if the image is incomplete, as a killed process leaves it.

        Raises:
            DataError: the image does not have the size of the sample, or is too large to be read at once.
        """
        file = self._file(sample.name)
        if is_foreign(self._output, sample.name, self._store.suffix):
            self._n_foreign += 1
            return True
        try:
            if sizes:
                kept, (width, height) = self._store.read_reduced(file)
            else:
                kept = self._store.read(file)
                width, height = _size(kept)
        except TooLargeError:
            raise
        except DataError:
            return False
        expected = "{}x{}".format(*(sizes[0] if sizes else _size(shown_source)))
        if f"{width}x{height}" != expected:
            self._n_resized += 1
            raise DataError(
                f"{file}: is {width}x{height}, expected {expected}. Remove it, or choose --existing replace."
            )
        self._n_kept += 1
        self._record(sample, shown_source, kept, sizes)
        return True

    def _record(self, sample: Sample, shown_source: Tensor, fake: Tensor, sizes: Sizes | None = None) -> None:
        """Measure a translated image, and write its images in the gallery; sizes: where the images are reduced."""
        size, source_size = sizes or (_size(fake), _size(sample.source))
        name = sample.name
        full = f"{name}{self._store.suffix}"
        shown_fake = self._show_target(fake, sample.target)
        pictures = {"source": shown_source, "translated": shown_fake}
        measured = None
        if sample.target is not None:
            shown_target = self._show_target(sample.target, None)
            pictures |= {"target": shown_target, "difference": difference(shown_fake, shown_target)}
            measured = self._evaluator.measure(fake, sample.target, self._weights_of(sample))
            self._baseline.add(sample.source, self._evaluator.levels(sample.target))
        images = {}
        for kind, picture in pictures.items():
            is_there = kind == "translated" and size[0] <= GALLERY_WIDTH and self._store.form is None
            images[kind] = full if is_there else gallery_image(kind, name)
            if not is_there:
                write_png(self._output / images[kind], thumbnail(picture, GALLERY_WIDTH))
        row = Row(name, images, None if images["translated"] == full else full, _titled(measured))
        on_sheet = None
        if name in self._on_sheet:
            heads = [kind for kind in KINDS[:3] if kind in pictures]
            on_sheet = SheetSample(name, {kind: thumbnail(pictures[kind], SHEET_WIDTH // 2) for kind in heads})
        self._records[name] = _Record(row, size, source_size, measured, on_sheet)

    def finish(self, world: World, title: str, origin: Mapping[str, Any]) -> None:
        """Gather the results of all processes; the main one writes sheet, gallery and, with targets, metrics.json.

        origin: the generator and its input, as metrics.json describes them.
        """
        gathered = world.gather((self._records, self._baseline, self._n_kept, self._n_foreign, self._n_resized))
        if not world.is_main:
            return
        by_name = {name: record for records, *_ in gathered for name, record in records.items()}
        records = [by_name[name] for name in self._names if name in by_name]
        n_kept, n_foreign, n_resized = map(sum, zip(*(counts for _, _, *counts in gathered), strict=True))
        if n_skipped := len(self._names) - len(records) - n_foreign - n_resized:
            logger.warning("skipped      %d of %s, which cannot be used", n_skipped, counted(len(self._names), "image"))
        if n_foreign:
            logger.warning("left out     %s that test.py did not write", counted(n_foreign, "existing image"))
        if n_resized:
            logger.warning("left out     %s of another size than the source", counted(n_resized, "existing image"))
        if n_kept:
            logger.info("kept         %s", counted(n_kept, "existing image"))
        if not records:
            return
        write_gallery(self._output / INDEX, [record.row for record in records], title, legend=self._legend)
        logger.info("translated   %s: %s", counted(len(records) - n_kept, "image"), self._output)
        _warn_of_small(records)
        if on_sheet := [record.on_sheet for record in records if record.on_sheet]:
            write_png(self._output / f"{SHEET}.png", contact_sheet(on_sheet, len(records)))
            logger.info("overview     %s", self._output / f"{SHEET}.png")
        logger.info("gallery      %s", self._output / INDEX)
        measured = {record.row.name: record.measured for record in records if record.measured}
        if measured:
            sizes = Counter(f"{width}x{height}" for width, height in (r.size for r in records if r.measured))
            baseline = _merged([baseline for _, baseline, *_ in gathered]).l1()
            protocol = {"n_images": len(measured), "sizes": dict(sizes), **self._evaluator.protocol}
            about = {"origin": {**origin, "n_kept": n_kept}, "protocol": protocol}
            report_metrics(measured, self._evaluator.summarize(list(measured.values())), baseline, about, self._output)
            if self._evaluator.sets and len(measured) < 2:
                names = ", ".join(TITLES[name] for name in self._evaluator.sets)
                logger.warning("%s: not defined for a single image", names)


def _size(image: Tensor) -> tuple[int, int]:
    return image.shape[2], image.shape[1]


def _warn_of_small(records: Sequence[_Record]) -> None:
    """Report images of which a network sees mostly their padding."""
    small = [record for record in records if min(record.source_size) < SMALL]
    if small:
        width, height = small[0].source_size
        logger.warning(
            "%s below %d pixels, such as %s (%dx%d): mostly padding is translated. Use larger ones.",
            counted(len(small), "image"),
            SMALL,
            printable(small[0].row.name),
            width,
            height,
        )


def _merged(baselines: Sequence[ConstantColorBaseline]) -> ConstantColorBaseline:
    """Return the baseline of the images of all processes."""
    merged = baselines[0]
    for baseline in baselines[1:]:
        merged.add_all(baseline)
    return merged


def _titled(measured: Measurement | None) -> dict[str, float]:
    """Return the figures of an image that the gallery shows, by title."""
    return {TITLES[name]: value for name, value in shown(measured.figures).items()} if measured else {}


def report_metrics(
    measured: Mapping[str, Measurement], summary: Summary, baseline_l1: float, about: Mapping[str, Any], output: Path
) -> None:
    """Print the figures of all images together, and write them with those of each image and `about` as metrics.json."""
    l1, split = summary.mean["l1"], about["origin"].get("split")
    below_baseline = 1 - l1 / baseline_l1 if baseline_l1 > 0 else 0.0
    report = {
        "step": about["origin"].get("step"),
        "n_images": len(measured),
        "measured_on": MEASURED_ON.get(split, "other samples"),
        "mean": summary.mean,
        "whole": summary.whole,
        "constant_color_floor": {"l1": baseline_l1},
        "l1_below_floor": below_baseline,
        **about,
        "classes": {name: asdict(score) for name, score in summary.classes.items()},
        "images": {name: measurement.figures for name, measurement in measured.items()},
    }
    path = output / METRICS
    with path_in_errors(path):
        path.write_text(strict_json(report, indent=2) + "\n", encoding="utf-8")
    logger.info("metrics      %s", summary)
    if split == TRAIN:
        logger.warning("measured on  training samples, which show little of how new images are translated")
    elif split == HELD_BACK:
        logger.info("measured on  %s", MEASURED_ON[split])
    for line in class_table(summary.classes):
        logger.info("             %s", line)
    comparison = f"{abs(below_baseline):.1%} {'below' if below_baseline >= 0 else 'above'}"
    logger.info(f"baseline     L1 {baseline_l1:.4f} of the best constant colour; the generator is {comparison}")
    if "fid" in summary.whole and len(measured) < FEW_FOR_FID:
        logger.warning(
            "FID of %s: compare it only with the FID of as many images; published ones are of thousands",
            counted(len(measured), "image"),
        )
    logger.info("report       %s", path)
