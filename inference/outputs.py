"""The results of test.py: images, a contact sheet, a gallery and metrics.json."""

import errno
import json
import os
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import chain
from pathlib import Path
from typing import Any

from torch import Tensor

from data.batch import DataError, Sample
from data.image_files import write_png
from data.layout import Layout
from inference.contact_sheet import SHEET_WIDTH, contact_sheet, thumbnail
from inference.inputs import common_folder
from inference.load import LoadedGenerator
from inference.request import Request
from metrics.constant_color import ConstantColorBaseline
from metrics.evaluator import TITLES, Evaluator, Measurement, Summary, shown
from metrics.segmentation import class_table
from utils.atomic_file import path_in_errors
from utils.distributed import World
from utils.gallery import Row, write_gallery
from utils.image_grid import difference
from utils.log import logger

SHEET = "contact_sheet"
METRICS = "metrics.json"
GALLERY = "gallery"
INDEX = "index.html"
KINDS = ("source", "translated", "target", "difference")
SHEET_SAMPLES = 24
FEW_FOR_FID = 2048  # images: with fewer, the covariance of 2048 features does not have full rank
GALLERY_WIDTH = 512  # pixels; browsers cannot open a page of thousands of large images


def default_output(loaded: LoadedGenerator, request: Request) -> Path:
    """Return results/RUN/SPLIT_stepSTEP, with the name of the input in place of the split's where there is --input."""
    name = request.split or loaded.config.data.test_split
    if request.input:
        first, *others = request.input
        is_file = first.is_file() and not others
        name = first.resolve().stem if is_file else common_folder(request.input).name or "input"
    name = name.replace("/", "_")  # a split may be a nested folder; its results are not
    return Path("results") / loaded.name / (name if loaded.step is None else f"{name}_step{loaded.step}")


def prepare_output(output: Path, layout: Layout) -> None:
    """Create the output folder.

    Raises:
        DataError: results would overwrite inputs or each other, or be written outside the folder.
        OSError: the folder cannot be created, or not be written to.
    """
    written = output.resolve()
    if written.exists() and not written.is_dir():
        raise DataError(f"--output: {output} is a file. Choose another --output.")
    for folder in layout.folders:
        if folder.resolve() in (written, *written.parents):
            raise DataError(f"--output: {output} is inside {folder}, which holds inputs. Choose another --output.")
    if SHEET in layout.names:
        raise DataError(f"--input: {SHEET} is the name of the contact sheet among the results. Rename the input.")
    if inside := next((name for name in layout.names if name.split("/")[0] == GALLERY), None):
        raise DataError(f"--input: {inside}: {GALLERY} is a folder of the results. Rename the input.")
    results = _check_results(output, layout)
    for place, file in results.items():
        if not place.is_relative_to(written):
            raise DataError(f"--output: {file} is a link to {place}, outside the output folder. Remove the link.")
    output.mkdir(parents=True, exist_ok=True)
    if not os.access(output, os.W_OK | os.X_OK):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(output))


def _check_results(output: Path, layout: Layout) -> dict[Path, Path]:
    """Return the files to be written, by their resolved paths; raise DataError where two of them collide."""
    pictures = (output / gallery_image(kind, name) for name in layout.names for kind in KINDS)
    files = [output / f"{name}.png" for name in (*layout.names, SHEET)]
    files += [output / METRICS, output / INDEX, *pictures]
    results = {file.resolve(): file for file in files}
    if overwritten := results.keys() & {path.resolve() for path in layout.files}:
        raise DataError(f"--output: results would overwrite the input {min(overwritten)}. Choose another --output.")
    if taken := set(files) & set(chain.from_iterable(file.parents for file in files)):
        raise DataError(f"--input: {min(taken)} would be both a result and a folder of results. Rename an input.")
    return results


def gallery_image(kind: str, name: str) -> str:
    """Return the path of a sample's image in the gallery, relative to the output folder."""
    return f"{GALLERY}/{kind}/{name}.png"


@dataclass(frozen=True)
class _Record:
    """The parts of a translated sample that the final report needs."""

    row: Row
    size: tuple[int, int]
    measured: Measurement | None
    thumbnails: list[Tensor]


class Results:
    """Writes the results of one process; at the end the main process writes the report on those of all processes.

    output: the folder of `prepare_output`. layout: the samples of all processes.
    """

    def __init__(self, output: Path, layout: Layout, evaluator: Evaluator) -> None:
        self._output = output
        self._evaluator = evaluator
        self._names = layout.names
        self._on_sheet = frozenset(layout.names[:SHEET_SAMPLES])
        self._baseline = ConstantColorBaseline(layout.n_classes)
        self._records: dict[str, _Record] = {}

    def add(self, sample: Sample, shown_source: Tensor, fake: Tensor) -> None:
        """Write a translated image and its images in the gallery; `shown_source` and `fake` are (3, H, W) uint8."""
        name = sample.name
        full = f"{name}.png"
        write_png(self._output / full, fake)
        pictures = {"source": shown_source, "translated": fake}
        measured = None
        if sample.target is not None:
            pictures |= {"target": sample.target, "difference": difference(fake, sample.target)}
            measured = self._evaluator.measure(fake, sample.target)
            self._baseline.add(sample.source, sample.target)
        images = {}
        for kind, picture in pictures.items():
            is_there = kind == "translated" and picture.shape[2] <= GALLERY_WIDTH
            images[kind] = full if is_there else gallery_image(kind, name)
            if not is_there:
                write_png(self._output / images[kind], thumbnail(picture, GALLERY_WIDTH))
        row = Row(name, images, None if images["translated"] == full else full, _titled(measured))
        on_sheet = [pictures[kind] for kind in KINDS[:3] if kind in pictures] if name in self._on_sheet else []
        size = (fake.shape[2], fake.shape[1])
        self._records[name] = _Record(row, size, measured, [thumbnail(image, SHEET_WIDTH // 2) for image in on_sheet])

    def finish(self, world: World, title: str, origin: Mapping[str, Any]) -> None:
        """Gather the results of all processes; the main one writes sheet, gallery and, with targets, metrics.json.

        origin: the generator and its input, as metrics.json describes them.
        """
        gathered = world.gather((self._records, self._baseline))
        if not world.is_main:
            return
        by_name = {name: record for records, _ in gathered for name, record in records.items()}
        records = [by_name[name] for name in self._names if name in by_name]
        if n_skipped := len(self._names) - len(records):
            logger.warning("skipped      %d of %d images, which cannot be read", n_skipped, len(self._names))
        if not records:
            return
        write_png(self._output / f"{SHEET}.png", contact_sheet([r.thumbnails for r in records if r.thumbnails]))
        write_gallery(self._output / INDEX, [record.row for record in records], title)
        logger.info("translated   %d images: %s", len(records), self._output)
        logger.info("overview     %s", self._output / f"{SHEET}.png")
        logger.info("gallery      %s", self._output / INDEX)
        measured = {record.row.name: record.measured for record in records if record.measured}
        if measured:
            sizes = Counter(f"{width}x{height}" for width, height in (r.size for r in records if r.measured))
            baseline = _merged([baseline for _, baseline in gathered]).l1()
            protocol = {"n_images": len(measured), "sizes": dict(sizes), **self._evaluator.protocol}
            about = {"origin": dict(origin), "protocol": protocol}
            report_metrics(measured, self._evaluator.summarize(list(measured.values())), baseline, about, self._output)
            if self._evaluator.sets and len(measured) < 2:
                names = ", ".join(TITLES[name] for name in self._evaluator.sets)
                logger.warning("%s: not defined for a single image", names)


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
    l1 = summary.mean["l1"]
    below_baseline = 1 - l1 / baseline_l1 if baseline_l1 > 0 else 0.0
    report = {
        "step": about["origin"].get("step"),
        "n_images": len(measured),
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
        path.write_text(json.dumps(report, indent=2, allow_nan=False) + "\n", encoding="utf-8")
    logger.info("metrics      %s", summary)
    for line in class_table(summary.classes):
        logger.info("             %s", line)
    comparison = f"{abs(below_baseline):.1%} {'below' if below_baseline >= 0 else 'ABOVE'}"
    logger.info(
        f"baseline     L1 {baseline_l1:.4f} of the best constant colour (per class of a label map); "
        f"the generator is {comparison}"
    )
    if "fid" in summary.whole and len(measured) < FEW_FOR_FID:
        logger.warning(
            "FID of %d images: compare it only with the FID of as many images; published ones are of thousands",
            len(measured),
        )
    logger.info("report       %s", path)
