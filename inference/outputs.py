"""The results of test.py: images, a contact sheet, a gallery and metrics.json."""

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from torch import Tensor

from configs.splits import HELD_BACK, TRAIN, has_split, open_split
from data.batch import DataError, Sample
from data.files.image_files import write_png
from data.files.stored_image import TooLargeError
from data.layout import Layout
from data.preprocessing import Preprocessing
from inference.contact_sheet import SHEET_WIDTH, contact_sheet, thumbnail
from inference.load import LoadedGenerator
from inference.output_folder import INDEX, KINDS, METRICS, SHEET, OutputFolder, gallery_image
from inference.predictor import Predictor
from inference.reading import NoData, collected, read_padded, reduced
from metrics.constant_color import ConstantColorBaseline
from metrics.evaluator import TITLES, Evaluator, Features, Measurement, References, Summary, shown
from metrics.segmentation import class_table
from utils.distributed import World
from utils.files import path_in_errors
from utils.gallery import Row, Swatch, write_gallery
from utils.log import logger
from utils.pictures import difference
from utils.plain_values import strict_json
from utils.text import counted

SHEET_SAMPLES = 24
FEW_FOR_FID = 2048  # images; with fewer images, the covariance of 2048 features does not have full rank
MEASURED_ON = {TRAIN: "training samples", HELD_BACK: "training samples kept for validation"}
GALLERY_WIDTH = 512  # pixels; browsers cannot show thousands of large images on a page

_BASELINES = ("l1", "l1_weighted")  # metrics that are compared with the best constant colours


@dataclass
class SetMeasures:
    """Compares the set of translations with real images of the target domain, for unpaired data.

    Each process collects the features of its images. `gather` compares the features of all processes.

    evaluator, of_sources: Evaluators of the target domain and of the source domain.
    reals: Images of the target domain. The layout reads them as sources.
    """

    evaluator: Evaluator
    of_sources: Evaluator
    reals: Layout
    _found: dict[tuple[str, int], Features] = field(default_factory=dict)

    def add(self, number: int, source: Tensor, fake: Tensor) -> None:
        """Add the features of source `number` and of its translation."""
        self._found["source", number] = self.of_sources.features(source, number)
        self._found["fake", number] = self.evaluator.features(fake, number)

    def add_reals(self, preprocessing: Preprocessing, world: World, problems: list[str], *, keeps_sizes: bool) -> None:
        """Add the features of this process's share of the real images. Resize real images like sources.

        problems: List that receives messages about unreadable images. These images are skipped.
        """
        for number in range(world.rank, len(self.reals), world.size):
            with collected(problems):
                image = read_padded(self.reals, preprocessing, number, keeps_size=keeps_sizes).sample.source
                self._found["real", number] = self.evaluator.features(image, number)

    def gather(self, world: World) -> dict[str, Any] | None:
        """Return metrics ("whole"), counts and `References` for the images of all processes, or None without images."""
        found = {key: features for part in world.gather(self._found) for key, features in part.items()}
        in_order = [(key[0], found[key]) for key in sorted(found)]
        sources, fakes, reals = ([x for key, x in in_order if key == kind] for kind in ("source", "fake", "real"))
        if not fakes or not reals:
            return None
        counts, figures = {"n_images": len(fakes), "n_real": len(reals)}, self.evaluator.set_figures(fakes, reals)
        return {**counts, "whole": figures, **asdict(self.evaluator.references(sources, reals))}


def open_reals(loaded: LoadedGenerator, split: str) -> Layout | None:
    """Return the target images of a split, read as sources. Return None for paired data, or if none exist."""
    config, data = loaded.config, loaded.config.data.reversed
    other = replace(config, data=replace(data, source_folder=loaded.stack or data.source_folder))
    has_reals = bool(config.method.declaration.metrics) and has_split(other, split)
    return open_split(other, split, needs_targets=False) if has_reals else None


@dataclass(frozen=True)
class _Record:
    """The data of a translated sample for the final report. size: Width and height of the translation."""

    row: Row
    size: tuple[int, int]
    measured: Measurement | None
    on_sheet: Mapping[str, Tensor]


@dataclass
class Results:
    """Writes the results of one process. At the end, the main process reports the results of all processes.

    folder: Folder of the results, with the samples of all processes.
    predictor: Predictor that makes the translations and converts them to RGB pictures.
    legend: Names and colours of classes for the gallery.
    sets: Metrics of unpaired data. Such data has no metrics per image.
    """

    folder: OutputFolder
    evaluator: Evaluator
    predictor: Predictor
    legend: Sequence[Swatch] = ()
    sets: SetMeasures | None = None

    def __post_init__(self) -> None:
        layout, form = self.folder.layout, self.folder.store.form
        n_channels = form.n_channels if form and form.n_channels != 1 else 3
        self._indices = {name: index for index, name in enumerate(layout.names)}
        self._baselines = {name: ConstantColorBaseline(layout.n_classes, n_channels) for name in _BASELINES}
        self._records: dict[str, _Record] = {}
        self._counts: Counter[str] = Counter()  # kept images, and images with missing pixels

    def add(self, sample: Sample, fake: Tensor, no_data: NoData | None = None) -> None:
        """Write a translated image and its gallery images. Several threads can call this method.

        fake: Image of `Predictor.translate`, with or without a standard deviation.
        no_data: Pixels without data. The gallery and the metrics use the network's output for these pixels.
        """
        self._counts["no_data"] += no_data is not None and no_data.missing is not None
        fake, spread = self.predictor.split(fake)
        self._record(sample, fake)
        # write the translation after its source in the gallery, see OutputFolder._refuse_foreign
        source = self.folder.source(self._indices[sample.name])
        self.folder.store.write(self.folder.image(sample.name), fake, source, no_data)
        if spread is not None:
            no_data = replace(no_data, value=math.nan) if no_data else None
            self.folder.store.write(self.folder.spread(sample.name), spread, source, no_data)

    def add_to_baseline(self, sample: Sample) -> None:
        """Add the target of a sample to the baseline of constant colours. The order of calls affects rounding."""
        if sample.target is None:
            return
        levels, weights = self.evaluator.levels(sample.target), self.predictor.weights(sample)
        self._baselines["l1"].add(sample.source, levels)
        if weights is not None:
            self._baselines["l1_weighted"].add(sample.source, levels, weights)

    def keep(self, sample: Sample) -> bool:
        """Use the existing image of a sample as its translation. Return False if this image is incomplete.

        Raises:
            DataError: The image has a wrong size, or is too large to be read at once.
        """
        file, store = self.folder.image(sample.name), self.folder.store
        try:
            kept = store.read(file)
        except TooLargeError:
            raise
        except DataError:
            return False
        size, expected = _size(kept), tuple(math.ceil(side * store.scale) for side in _size(sample.source))
        if size != expected:
            found, wanted = (f"{width}x{height}" for width, height in (size, expected))
            raise DataError(f"{file}: is {found}, expected {wanted}. Remove it, or choose --existing replace.")
        self._counts["kept"] += 1
        self.add_to_baseline(sample)
        self._record(sample, kept)
        return True

    def _record(self, sample: Sample, fake: Tensor) -> None:
        """Compute the metrics of a translated image, and write its gallery images."""
        name, show, size = sample.name, self.predictor.show_target, _size(fake)
        if sample.target is None and self.predictor.tiles_for(*sample.source.shape[-2:]):
            # no metric needs the full size
            images = None if sample.source_images is None else reduced(sample.source_images)
            source = reduced(sample.source, is_ids=self.folder.layout.n_classes > 0)
            sample, fake = Sample(name, source=source, source_images=images), reduced(fake)
        full = f"{name}{self.folder.image(name).suffix}"
        pictures = {"source": self.predictor.show_source(sample), "translated": show(fake, sample.target)}
        measured = None
        if sample.target is not None:
            pictures["target"] = show(sample.target)
            pictures["difference"] = difference(pictures["translated"], pictures["target"])
            measured = self.evaluator.measure(fake, sample.target, self.predictor.weights(sample), self._indices[name])
        elif self.sets:
            self.sets.add(self._indices[name], sample.source, fake)
        files = {kind: gallery_image(kind, name) for kind in pictures}
        if size[0] <= GALLERY_WIDTH and full.endswith(".png") and self.predictor.conditioning.target_is_rgb:
            files["translated"] = full
        for kind, file in files.items():
            if file != full:
                write_png(self.folder.path / file, thumbnail(pictures[kind], GALLERY_WIDTH))
        figures = {TITLES[figure]: value for figure, value in shown(measured.figures).items()} if measured else {}
        row = Row(name, files, None if files["translated"] == full else full, figures)
        heads = [kind for kind in KINDS[:3] if kind in pictures] if self._indices[name] < SHEET_SAMPLES else []
        on_sheet = {kind: thumbnail(pictures[kind], SHEET_WIDTH // 2) for kind in heads}
        self._records[name] = _Record(row, size, measured, on_sheet)

    def finish(self, world: World, title: str, origin: Mapping[str, Any]) -> None:
        """Gather the results of all processes. The main process writes contact sheet, gallery and metrics.json.

        origin: Description of the generator and its input, for metrics.json.
        """
        gathered = world.gather((self._records, self._baselines, self._counts))
        compared = self.sets.gather(world) if self.sets else None
        if not world.is_main:
            return
        by_name = {name: record for of_process, *_ in gathered for name, record in of_process.items()}
        records = [by_name[name] for name in self._indices if name in by_name]
        counts = sum((of_process for *_, of_process in gathered), Counter[str]())
        if n_skipped := len(self._indices) - len(records):
            of_all = counted(len(self._indices), "image")
            logger.warning("skipped      %d of %s; the errors below name them", n_skipped, of_all)
        if n_filled := counts["no_data"]:
            logger.info("no data      %s with missing pixels, filled for the network", counted(n_filled, "source"))
        if counts["kept"]:
            logger.info("kept         %s", counted(counts["kept"], "existing image"))
        if not records:
            return
        write_gallery(self.folder.path / INDEX, [record.row for record in records], title, legend=self.legend)
        logger.info("translated   %s: %s", counted(len(records) - counts["kept"], "image"), self.folder.path)
        if on_sheet := {record.row.name: record.on_sheet for record in records if record.on_sheet}:
            sheet = self.folder.path / f"{SHEET}.png"
            write_png(sheet, contact_sheet(on_sheet, len(records)))
            logger.info("overview     %s", sheet)
        logger.info("gallery      %s", self.folder.path / INDEX)
        about = {"origin": {**origin, "n_kept": counts["kept"]}}
        if compared:
            whole, against = Summary({}, compared["whole"], {}), counted(compared["n_real"], "real image")
            between = References(compared["floor"], compared["ceiling"])
            lines = [f"metrics      {whole}, against {against}", f"to compare   {between}"]
            write_report({**compared, **about, "protocol": self.evaluator.protocol}, lines, self.folder.path)
        if measured := {record.row.name: record.measured for record in records if record.measured}:
            baselines, *others = (baselines for _, baselines, _ in gathered)
            for name, other in (item for of_process in others for item in of_process.items()):
                baselines[name].add_all(other)
            floor = {name: l1 for name in _BASELINES if (l1 := baselines[name].l1()) is not None}
            sizes = Counter("{}x{}".format(*record.size) for record in records if record.measured)
            protocol = {"n_images": len(measured), "sizes": dict(sizes), **self.evaluator.protocol}
            summary = self.evaluator.summarize(list(measured.values()))
            report_metrics(measured, summary, floor, about | {"protocol": protocol}, self.folder.path)


def _size(image: Tensor) -> tuple[int, int]:
    return image.shape[2], image.shape[1]


def report_metrics(
    measured: Mapping[str, Measurement],
    summary: Summary,
    floor: Mapping[str, float],
    about: Mapping[str, Any],
    output: Path,
) -> None:
    """Print the metrics over all images. Write metrics.json, with `about` and the metrics of each image.

    floor: L1 of the best constant colours ("l1") and, if pixels have weights, the weighted L1 ("l1_weighted"). If both
        exist, "l1_weighted" is printed, because the generator does not learn pixels of weight 0.
    """
    below = {name: 1 - summary.mean[name] / l1 if l1 > 0 else 0.0 for name, l1 in floor.items() if name in summary.mean}
    report = {
        "n_images": len(measured),
        "mean": summary.mean,
        "whole": summary.whole,
        "constant_color_floor": floor,
        **{f"{name}_below_floor": share for name, share in below.items()},
        **about,
        "classes": {name: asdict(score) for name, score in summary.classes.items()},
        "images": {name: measurement.figures for name, measurement in measured.items()},
    }
    classes = [f"             {line}" for line in class_table(summary.classes)]
    name = list(below)[-1]
    found = f"{abs(below[name]):.1%} {'below' if below[name] >= 0 else 'above'}"
    baseline = f"baseline     the best constant colour has {TITLES[name]} {floor[name]:.4f}; the generator is {found}"
    write_report(report, [f"metrics      {summary}", *classes, baseline], output)


def write_report(report: Mapping[str, Any], lines: Sequence[str], output: Path) -> None:
    """Write metrics.json, print `lines`, and warn about metrics that are easy to misread."""
    path, split, step = output / METRICS, report["origin"].get("split"), report["origin"].get("step")
    measured_on = MEASURED_ON.get(split, "other samples")
    with path_in_errors(path):
        text = strict_json({"step": step, "measured_on": measured_on, **report}, indent=2)
        path.write_text(text + "\n", encoding="utf-8")
    for line in lines:
        logger.info("%s", line)
    if split == TRAIN:
        logger.warning("measured on  training samples. Translations of new images can be worse")
    elif split == HELD_BACK:
        logger.info("measured on  %s", MEASURED_ON[split])
    if "fid" in report["whole"] and report["n_images"] < FEW_FOR_FID:
        logger.warning(
            "FID of %s: compare it only with an FID of as many images. Published values use thousands of images",
            counted(report["n_images"], "image"),
        )
    logger.info("report       %s", path)
