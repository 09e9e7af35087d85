"""Translate volumes slice by slice, and measure the translation of each patient."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import nullcontext, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple, Self

import numpy as np
import torch
from tqdm import tqdm

from configs import build
from configs.data_facts import slice_rule
from configs.splits import translated_split
from data.batch import Batch, DataError, Sample
from data.files.image_files import write_png
from data.files.volume_file import VOLUME_SUFFIXES, Geometry, read_volume, write_volume
from data.files.volume_header import volume_suffix
from data.folder import File
from data.map_reader import is_source
from data.preprocessing import Preprocessing
from data.volume_cache import AXES, Axis, value_window
from data.volumes import Patients, SliceRule
from inference.load import LoadedGenerator
from inference.output_folder import INDEX, ImageStore, OutputFolder, default_output, gallery_image, origin
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

_BATCH = 8  # slices
_MOST_RATIO = 1.5  # largest ratio of the sides of a voxel for --average-axes
_REFUSED = ("instances", "feature_maps", "nodata", "style", "tile", "norm_window", "max_pixels", "size")
_TITLES = {"mae": "MAE", "psnr": "PSNR", "ms_ssim": "MS-SSIM", "ssim": "SSIM"}


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
        n_axes = len(self.axes)
        windows = [value_window(source) if self.rule.scales_sources else (0.0, 1.0) for source in sources]
        result = np.zeros(sources[0].shape, self.dtype if n_axes == 1 else np.float32)
        spread = np.zeros(result.shape, np.float32) if self.predictor.has_spread else None
        for number in map(AXES.index, self.axes):
            along = np.moveaxis(result, number, 0)
            # padded as in training, because instance norm depends on the padding
            slices = [self.rule.padded(np.moveaxis(source, number, 0), source.min()) for source in sources]
            for part, fakes in self._batches(slices, windows, along.shape[1:]):
                along[part] = self._final(fakes[:, 0]) if n_axes == 1 else along[part] + fakes[:, 0]
                if spread is not None:
                    np.moveaxis(spread, number, 0)[part] += fakes[:, 1] / n_axes
        if n_axes > 1:
            result /= n_axes
            result = self._final(result).astype(self.dtype, copy=False)
        return result, spread

    def _final(self, values: np.ndarray) -> np.ndarray:
        """Clip and round float32 values in place, because a copy of a volume needs much memory."""
        values.clip(*self.bounds, out=values)
        return values if self.dtype.kind == "f" else np.rint(values, out=values)

    def _batches(
        self, slices: Sequence[np.ndarray], windows: Sequence[tuple[float, float]], sides: Sequence[int]
    ) -> Iterator[tuple[slice, np.ndarray]]:
        """Yield the slices of each batch, and the middle of their translations and spreads, (N, C, *sides) float32."""
        n_slices, *padded = slices[0].shape
        top, left = ((larger - side) // 2 for larger, side in zip(padded, sides, strict=True))
        for first in range(0, n_slices, self.batch_size):
            part = slice(first, first + self.batch_size)
            fits = [self._fitted(slices, windows, index) for index in range(n_slices)[part]]
            fakes = self.predictor.translate(Batch.of([fit.padded for fit in fits]))
            images = torch.stack([fit.window.cut(fake) for fit, fake in zip(fits, fakes, strict=True)]).numpy()
            yield part, images[..., top : top + sides[0], left : left + sides[1]]

    def _fitted(self, slices: Sequence[np.ndarray], windows: Sequence[tuple[float, float]], index: int) -> PaddedSample:
        stacks = [self.rule.source(each, index, window) for each, window in zip(slices, windows, strict=True)]
        sample = Sample("slice", source=torch.from_numpy(np.concatenate(stacks).astype(np.float32)))
        return fitted(sample, self.preprocessing, keeps_size=True, source_is_ids=False)


@dataclass(frozen=True)
class VolumeStore(ImageStore):
    """Names the files of translated volumes. Without a `suffix`, a file has the format of its source."""

    suffix: str = ""
    other_suffixes: tuple[str, ...] = VOLUME_SUFFIXES

    def suffix_of(self, source: File | None) -> str:
        """Return the suffix of a translation. DICOM series are translated to NIfTI."""
        own = volume_suffix(str(source))
        return self.suffix or {"": ".nii.gz", ".nii": ".nii.gz", ".mhd": ".mha", ".nhdr": ".nrrd"}.get(own, own)


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
        translator, results = VolumeTranslator.of(loaded, predictor, request), list[_Result]()
        problems, hidden = [*patients.problems] if world.is_main else [], None if world.is_main else True
        own = range(world.rank, len(patients), world.size)
        for index in tqdm(own, unit="volume", disable=hidden, dynamic_ncols=True):
            with collected(problems):
                results.append(_translated(patients, index, translator, folder, request))
        gathered = world.gather((results, problems))
        if world.is_main:
            results = sorted((result for of_process, _ in gathered for result in of_process), key=lambda x: x.row.name)
            _report(results, folder.path, f"{loaded.name}: {folder.path.name}", translator.bounds, made_by)
        if problems := [problem for _, of_process in gathered for problem in of_process]:
            raise DataError(*problems)


class _Result(NamedTuple):
    """A translated patient. `figures` is empty without a target."""

    row: Row
    figures: Figures
    is_kept: bool


def _translated(
    patients: Patients, index: int, translator: VolumeTranslator, folder: OutputFolder, request: Request
) -> _Result:
    """Translate and measure a patient, and write all files. Raise DataError if a volume cannot be read."""
    name, volumes = patients.names[index], patients.volumes(index)
    arrays, geometry = {kind: volume.array for kind, volume in volumes.items()}, volumes["source"].geometry
    mask, bounds = arrays.pop("mask", None), translator.bounds
    if request.average_axes and max(geometry.spacing) > _MOST_RATIO * min(geometry.spacing):
        sides = "x".join(map(exact, geometry.spacing))
        logger.warning("%s: has voxels of %s mm. --average-axes is meant for cubic voxels", name, sides)
    kept, spread = _kept(folder, name, geometry) if request.existing == "keep" else None, None
    if kept is None:
        arrays["translated"], spread = translator.translate([arrays[kind] for kind in filter(is_source, arrays)])
        if mask is not None:
            arrays["translated"][mask <= 0] = bounds[0]
    else:
        arrays["translated"] = kept
    low, high = request.window or bounds
    shown = pictures(arrays, mask, geometry.spacing, (low, high))
    images = {kind: gallery_image(kind, name) for kind in shown}
    for kind, file in images.items():
        write_png(folder.path / file, shown[kind])
    path, stored = folder.image(name), patients.by_name[name]["source"].path
    if kept is None:
        write_volume(path, arrays["translated"], stored)
    if spread is not None:
        write_volume(folder.spread(name), spread, stored)
    has_target = "target" in arrays
    figures = volume_figures(arrays["target"], arrays["translated"], mask, bounds) if has_target else {}
    row = Row(name, images, path.name, {_TITLES[key]: figures[key] for key in _TITLES if figures})
    return _Result(row, figures, kept is not None)


def _kept(folder: OutputFolder, name: str, geometry: Geometry) -> np.ndarray | None:
    """Return the existing translation of a patient if all its files exist and it is complete."""
    if folder.is_written(name):
        with suppress(DataError):
            volume = read_volume(folder.image(name))
            return volume.array if volume.geometry.difference(geometry) is None else None
    return None


def _report(
    results: Sequence[_Result], output: Path, title: str, bounds: tuple[float, float], made_by: Mapping[str, Any]
) -> None:
    """Write the gallery, and metrics.json if there are targets."""
    n_kept = sum(result.is_kept for result in results)
    if results:
        write_gallery(output / INDEX, [result.row for result in results], title)
        if n_kept:
            logger.info("kept         %s", counted(n_kept, "existing volume"))
        logger.info("translated   %s: %s", counted(len(results) - n_kept, "volume"), output)
        logger.info("gallery      %s", output / INDEX)
    if figures := {result.row.name: result.figures for result in results if result.figures}:
        of_all, about = summary(figures), {"origin": {**made_by, "n_kept": n_kept}}
        report = {"patients": figures, **of_all, "range": bounds, "whole": {}, **about}
        write_report(report, list(_table(figures, of_all)), output)


def _table(figures: Mapping[str, Figures], of_all: Mapping[str, Figures]) -> Iterator[str]:
    """Yield a row for each patient, and the mean and standard deviation over all patients."""
    width = max(12, *map(len, figures))
    yield f"{'patient':<{width}} " + "".join(f"{title:>10}" for title in _TITLES.values())
    for name, values in figures.items():
        yield f"{name:<{width}} " + "".join(f"{_shown(values[key]):>10}" for key in _TITLES)
    ends = ((title, _shown(of_all["mean"][key]), _shown(of_all["std"][key])) for key, title in _TITLES.items())
    means = ", ".join(f"{title} {mean} ± {std}" for title, mean, std in ends)
    yield f"{'mean':<{width}} {means}; MAE in units of the targets, PSNR in dB"


def _shown(value: float | None) -> str:
    return "-" if value is None else f"{value:.4g}"
