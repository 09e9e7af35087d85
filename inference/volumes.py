"""Translate volumes slice by slice, and measure the translation of each patient."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import nullcontext, suppress
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Any, Self

import numpy as np
import torch
from tqdm import tqdm

from configs import build
from configs.data_facts import slice_rule
from configs.splits import translated_split
from data.batch import Batch, DataError, Sample
from data.files.image_files import write_png
from data.files.volume_file import VOLUME_SUFFIXES, Geometry, read_volume, volume_name, write_volume
from data.folder import File
from data.map_reader import is_source
from data.preprocessing import Preprocessing
from data.volume_cache import AXES, Axis, value_window
from data.volumes import Patients, SliceRule
from inference.load import LoadedGenerator
from inference.output_folder import INDEX, METRICS, ImageStore, OutputFolder, default_output, gallery_image, origin
from inference.outputs import write_report
from inference.predictor import Predictor
from inference.reading import PaddedSample, collected, fitted
from inference.request import Request
from inference.requested_predictor import requested_predictor
from inference.volume_inputs import volumes_of_input, volumes_of_split
from inference.volume_pictures import pictures
from metrics.volume_metrics import Figures, summary, volume_figures
from utils.distributed import World
from utils.gallery import Row, write_gallery
from utils.log import logger
from utils.text import counted, exact

_Scale = tuple[tuple[float, float], float]  # window and lowest value of a source volume
_BATCH = 8  # slices
_MOST_RATIO = 1.5  # largest ratio of the sides of a voxel for --average-axes
_REFUSED = ("instances", "feature_maps", "nodata", "style", "tile", "norm_window", "max_pixels", "size")
_TITLES = {"mae": "MAE", "psnr": "PSNR", "ms_ssim": "MS-SSIM", "ssim": "SSIM"}
_LISTED = 40  # patients in the table


@dataclass(frozen=True)
class VolumeTranslator:
    """Translates whole volumes.

    predictor: Predictor whose translations are float32 values in the targets' range.
    rule: How slices become samples.
    bounds: Lowest and highest value of targets.
    axes: Axes of the slices. The translations along several axes are averaged.
    """

    predictor: Predictor
    preprocessing: Preprocessing
    rule: SliceRule
    bounds: tuple[float, float]
    dtype: np.dtype
    axes: Sequence[Axis]
    batch_size: int

    @classmethod
    def of(cls, loaded: LoadedGenerator, predictor: Predictor, request: Request) -> Self:
        """Return the translator of a request."""
        data, (low, high) = loaded.config.data, loaded.data_facts.bounds("target")
        rule = slice_rule(data)
        return cls(
            predictor=replace(predictor, target_dtype=torch.float32),
            preprocessing=build.build_preprocessing(loaded.config),
            rule=rule,
            bounds=(low, high),
            dtype=np.dtype(str(loaded.data_facts.target_dtype).removeprefix("torch.")),
            axes=AXES if request.average_axes else rule.axes[:1],
            batch_size=request.batch_size or (1 if request.noise else _BATCH),
        )

    def translate(self, sources: Sequence[np.ndarray]) -> tuple[np.ndarray, np.ndarray | None]:
        """Translate the source volumes of a patient, (D, H, W) each. Return a volume of the same size, and its spread.

        Integers are rounded half to even. All values are clipped to `bounds`. The spread is the standard deviation of
        the translations of several checkpoints, float32 in units of the targets. It is None without `has_spread`.
        """
        shape, n_axes = sources[0].shape, len(self.axes)
        has_windows = self.rule.scales_sources
        scales = [(value_window(each) if has_windows else (0.0, 1.0), float(each.min())) for each in sources]
        result = np.empty(shape, self.dtype)
        total = np.zeros(shape, np.float32) if n_axes > 1 else None
        spread = np.zeros(shape, np.float32) if self.predictor.has_spread else None
        for number in map(AXES.index, self.axes):
            slices = [np.moveaxis(source, number, 0) for source in sources]
            for first, fakes in self._batches(slices, scales):
                part = slice(first, first + len(fakes))
                if total is None:
                    np.moveaxis(result, number, 0)[part] = self._final(fakes[:, 0])
                else:
                    np.moveaxis(total, number, 0)[part] += fakes[:, 0]
                if spread is not None:
                    np.moveaxis(spread, number, 0)[part] += fakes[:, 1] / n_axes
        for z, plane in enumerate([] if total is None else total):
            result[z] = self._final(plane / n_axes)
        return result, spread

    def _final(self, values: np.ndarray) -> np.ndarray:
        values = values.clip(*self.bounds)
        return values if self.dtype.kind == "f" else np.rint(values)

    def _batches(self, slices: Sequence[np.ndarray], scales: Sequence[_Scale]) -> Iterator[tuple[int, np.ndarray]]:
        """Yield the first index of each batch, and its translations (and spreads), (N, C, H, W) float32."""
        n_slices, height, width = slices[0].shape
        (top, _), (left, _) = self.rule.margins((height, width))
        for first in range(0, n_slices, self.batch_size):
            indices = range(first, min(first + self.batch_size, n_slices))
            fits = [self._fitted(slices, scales, index) for index in indices]
            fakes = self.predictor.translate(Batch.of([fit.padded for fit in fits]))
            images = torch.stack([fit.window.cut(fake) for fit, fake in zip(fits, fakes, strict=True)]).numpy()
            yield first, images[..., top : top + height, left : left + width]

    def _fitted(self, slices: Sequence[np.ndarray], scales: Sequence[_Scale], index: int) -> PaddedSample:
        """Return a slice, padded as in training. Without this padding, instance norm would see other statistics."""
        sources = [self.rule.source(each, index, *scale) for each, scale in zip(slices, scales, strict=True)]
        sample = Sample("slice", source=torch.from_numpy(np.concatenate(sources).astype(np.float32)))
        return fitted(sample, self.preprocessing, keeps_size=True, source_is_ids=False)


@dataclass(frozen=True)
class VolumeStore(ImageStore):
    """Names the files of translated volumes. Without a `suffix`, a file has the format of its source."""

    suffix: str = ""

    @property
    def other_suffixes(self) -> tuple[str, ...]:
        """See ImageStore."""
        return VOLUME_SUFFIXES

    def suffix_of(self, source: File | None) -> str:
        """Return the suffix of a translation. DICOM series are translated to NIfTI."""
        own = str(source).removeprefix(volume_name(str(source)))
        return self.suffix or {"": ".nii.gz", ".nii": ".nii.gz", ".mhd": ".mha", ".nhdr": ".nrrd"}.get(own, own)

    def spread_suffix(self, suffix: str) -> str:
        """Return the suffix of the translation."""
        return suffix


def translate_volumes(loaded: LoadedGenerator, request: Request, world: World) -> None:
    """Translate the volumes of a request. Write the translations, metrics.json and a gallery.

    Raises:
        UserError, OSError: An option, a file or a folder cannot be used. All other volumes are translated first.
    """
    if refused := [f"--{name.replace('_', '-')}" for name in _REFUSED if getattr(request, name) is not None]:
        raise DataError(f"{', '.join(refused)}: cannot be used with volumes. Remove the option.")
    request = replace(request, size="own")
    split = None if request.input else request.split or translated_split(loaded.config)
    patients = volumes_of_split(loaded, split) if split else volumes_of_input(loaded, request)
    files = loaded.config.data.target_files
    store = VolumeStore(suffix="." + files.partition(".")[2] if files else "")
    output = request.output or default_output(loaded, request)
    folder = OutputFolder(output, patients, store, has_spread=request.spread)
    folder.prepare(request.existing)
    with folder.locked() if world.is_main else nullcontext():
        predictor = requested_predictor(loaded, request, world.device, folder.path, None)
        made_by: dict[str, Any] = {}
        with world.main_first():
            if world.is_main:
                made_by = origin(loaded, predictor, request, split, [str(each) for each in patients.folders])
                folder.record(made_by, request.existing)
        results = _Results(folder, patients, VolumeTranslator.of(loaded, predictor, request), request)
        problems, hidden = [*patients.problems] if world.is_main else [], None if world.is_main else True
        own = range(world.rank, len(patients), world.size)
        for index in tqdm(own, unit="volume", disable=hidden, dynamic_ncols=True):
            with collected(problems):
                results.add(index)
        results.finish(world, f"{loaded.name}: {folder.path.name}", made_by)
        if problems := [problem for of_process in world.gather(problems) for problem in of_process]:
            raise DataError(*problems)


@dataclass
class _Results:
    """Translates and measures the volumes of one process. At the end, the main process reports all volumes."""

    folder: OutputFolder
    patients: Patients
    translator: VolumeTranslator
    request: Request
    figures: dict[str, Figures] = field(default_factory=dict)
    rows: list[Row] = field(default_factory=list)
    n_kept: int = 0

    def add(self, index: int) -> None:
        """Translate and measure a patient; raise DataError if a volume cannot be read."""
        name, volumes = self.patients.names[index], self.patients.volumes(index)
        path, stored = self.folder.image(name), self.patients.by_name[name]["source"].path
        source, bounds = volumes["source"], self.translator.bounds
        target, mask = (volumes[kind].array if kind in volumes else None for kind in ("target", "mask"))
        spacing = source.geometry.spacing
        if self.request.average_axes and max(spacing) > _MOST_RATIO * min(spacing):
            sides = "x".join(map(exact, spacing))
            logger.warning("%s: has voxels of %s mm. --average-axes is meant for cubic voxels", name, sides)
        fake, spread = self._kept(name, source.geometry), None
        is_kept = fake is not None
        if fake is None:
            sources = [volume.array for kind, volume in volumes.items() if is_source(kind)]
            fake, spread = self.translator.translate(sources)
            if mask is not None:
                fake[mask <= 0] = bounds[0]
        low, high = self.request.window or bounds
        shown = pictures(source.array, target, fake, mask, spacing, (low, high))
        images = {kind: gallery_image(kind, name) for kind in shown}
        for kind, file in images.items():
            write_png(self.folder.path / file, shown[kind])
        if not is_kept:
            write_volume(path, fake, stored)
        if spread is not None:
            write_volume(self.folder.spread(name), spread, stored)
        figures = {} if target is None else volume_figures(target, fake, mask, bounds)
        if figures:
            self.figures[name] = figures
        self.rows.append(Row(name, images, path.name, {_TITLES[key]: figures[key] for key in _TITLES if figures}))

    def _kept(self, name: str, geometry: Geometry) -> np.ndarray | None:
        """Return the existing translation of a patient if --existing is keep and the file is complete."""
        if self.request.existing == "keep" and self.folder.is_written(name):
            with suppress(DataError):
                volume = read_volume(self.folder.image(name))
                if volume.geometry.difference(geometry) is None:
                    self.n_kept += 1
                    return volume.array
        return None

    def finish(self, world: World, title: str, made_by: Mapping[str, Any]) -> None:
        """Gather the results of all processes. The main process writes the gallery, and metrics.json with targets."""
        gathered = world.gather((self.rows, self.figures, self.n_kept))
        if not world.is_main:
            return
        rows = sorted((row for of_process, *_ in gathered for row in of_process), key=lambda row: row.name)
        figures = {name: values for _, of_process, _ in gathered for name, values in of_process.items()}
        n_kept = sum(of_process for *_, of_process in gathered)
        if rows:
            write_gallery(self.folder.path / INDEX, rows, title)
            if n_kept:
                logger.info("kept         %s", counted(n_kept, "existing volume"))
            logger.info("translated   %s: %s", counted(len(rows) - n_kept, "volume"), self.folder.path)
            logger.info("gallery      %s", self.folder.path / INDEX)
        if figures:
            figures, of_all = dict(sorted(figures.items())), summary(figures)
            report = {"patients": figures, **of_all, "range": self.translator.bounds, "whole": {}}
            report["origin"] = {**made_by, "n_kept": n_kept}
            write_report(report, list(_table(figures, of_all)), self.folder.path)


def _table(figures: Mapping[str, Figures], of_all: Mapping[str, Figures]) -> Iterator[str]:
    """Yield a row for each of the first patients, and the mean and standard deviation over all patients."""
    mean, std = ([of_all[name][key] for key in _TITLES] for name in ("mean", "std"))
    shown = dict(islice(figures.items(), _LISTED))
    width = max(12, *map(len, shown))
    yield f"{'patient':<{width}} " + "".join(f"{title:>10}" for title in _TITLES.values())
    for name, values in shown.items():
        yield f"{name:<{width}} " + "".join(f"{_shown(values[key]):>10}" for key in _TITLES)
    if len(figures) > len(shown):
        yield f"and {len(figures) - len(shown)} more in {METRICS}"
    texts = [f"{title} {_shown(m)} ± {_shown(s)}" for title, m, s in zip(_TITLES.values(), mean, std, strict=True)]
    yield f"{'mean':<{width}} {', '.join(texts)}; MAE in units of the targets, PSNR in dB"


def _shown(value: float | None) -> str:
    return "-" if value is None else f"{value:.4g}"
