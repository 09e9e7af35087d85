"""Layouts `paired_volumes` and `unpaired_volumes`. A sample is a slice of the volumes of a patient."""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Literal, Self

import numpy as np
import torch
from torch import Tensor
from tqdm import tqdm

from data.batch import DataError, LoadingError, Sample
from data.files.volume_file import VOLUME_SUFFIXES, Geometry, is_series, volume_name
from data.folder import Folder, LocalFolder
from data.layout import Layout, PairingError, Provenance, RegisteredLayout
from data.map_reader import is_source, source_kinds
from data.paired_folders import IF_MISSING, FolderNames, check_own_folders, folder_patterns, has_own_folder, match_names
from data.unpaired_folders import UnpairedLayout
from data.volume_cache import AXES, Axis, CachedVolume, VolumeFile, cached_volume, volume_folder
from data.volume_checks import describe_volumes
from utils.limits import OF_VOLUME
from utils.text import counted, exact

PATIENT = "{patient}"  # place of the patient's name in a pattern. A name can contain "/"
_RESAMPLE = "Resample one onto the other, as with SimpleITK.Resample(source, target)."
_NO_PAIRS = "for volumes that are not pairs set data.layout=unpaired_volumes and method.name=contrastive or cycle"
_INSIDE = 255  # weight 1 in uint8


@dataclass(frozen=True)
class Patients:
    """The volumes of a split.

    files: For each patient, the volumes by type of map.
    folders: Folders of the volumes.
    problems: Messages about patients whose volumes are not complete. These patients are not in `files`.
    """

    files: Mapping[str, Mapping[str, VolumeFile]]
    folders: Sequence[Folder]
    problems: Sequence[str] = ()

    @classmethod
    def find(cls, root: Folder, split: str, patterns: Mapping[str, str]) -> Self:
        """Return the volumes that fit the patterns, which are given by type of map. Masks of other patients may exist.

        Raises:
            DataError: The data set is not on a local disk, or two volumes of a folder have the same name.
        """
        folders = {kind: _folder_of(root, split, pattern) for kind, pattern in patterns.items()}
        problems, unmatched = list[str](), list[str]()
        found = {kind: found_volumes(root, split, each, problems, kind) for kind, each in patterns.items()}
        names, files = match_names(found, folders, unmatched)
        masks = tuple(f"{file}:" for file in found.get("mask", {}).values())
        problems += [problem for problem in unmatched if not problem.startswith(masks)]
        by_name = {name: {kind: each[number] for kind, each in files.items()} for number, name in enumerate(names)}
        return cls(by_name, list(folders.values()), problems)


def _folder_of(root: Folder, split: str, pattern: str) -> LocalFolder:
    """Return the innermost folder that contains all volumes of a pattern."""
    if not isinstance(root, LocalFolder):
        raise DataError(f"{root}: volumes cannot be read from tar files. Unpack the files.")
    fixed = _whole(split, pattern).partition(PATIENT)[0].rpartition("/")[0]
    return root / fixed if fixed else root


def _whole(split: str, pattern: str) -> str:
    """Return a pattern that contains {patient}. A pattern without {patient} is a folder with a volume per patient."""
    pattern = pattern.replace("{split}", split).rstrip("/")
    return pattern if PATIENT in pattern else f"{pattern}/{PATIENT}"


def existing_patterns(root: Folder, split: str, patterns: Mapping[str, str]) -> dict[str, str]:
    """Return the patterns of all sources, and the patterns of targets and masks that the split has."""
    return {
        kind: pattern
        for kind, pattern in patterns.items()
        if is_source(kind) or (has_own_folder(split, pattern) and found_volumes(root, split, pattern, []))
    }


def found_volumes(
    root: Folder, split: str, pattern: str, problems: list[str], kind: str = "source"
) -> dict[str, VolumeFile]:
    """Return the volumes whose paths fit a pattern, by patient. Append messages about missing volumes.

    Raise DataError like `Patients.find`. kind: Type of the volumes, for remedies.
    """
    folder, if_missing = _folder_of(root, split, pattern), IF_MISSING.get(kind, "")
    if not folder.exists():
        problems.append(f"{folder}: {folder.absence()}{if_missing}")
        return {}
    below = (Path(root.path) / _whole(split, pattern)).relative_to(folder.path).as_posix()
    first, *others = map(re.escape, below.split(PATIENT))
    rule = re.compile(first + "(?P<patient>.+)" + "(?P=patient)".join(others))
    names = [file.name for file in folder.files()]
    volumes = {name: volume_name(name) for name in names if name.lower().endswith(VOLUME_SUFFIXES)}
    parents = {PurePosixPath(name).parent.as_posix() for name in names if name not in volumes} - {"."}
    volumes |= {name: name for name in parents if rule.fullmatch(name) and is_series(Path(folder.path, name))}
    found, twins = dict[str, VolumeFile](), list[str]()
    for name in sorted(volumes):
        if match := rule.fullmatch(volumes[name]):
            file = VolumeFile(folder, name)
            if (other := found.setdefault(match["patient"], file)) is not file:
                twins.append(f"{file} and {other} have the same name: keep one of them")
    if twins:
        raise DataError(*twins)
    if not found:
        expected = f"{root / _whole(split, pattern)} with {', '.join(VOLUME_SUFFIXES)}, or a folder of DICOM files"
        problems.append(f"{folder}: holds no volume of the split {split}, expected {expected}{if_missing}")
    return found


def volume_patterns(
    source_folder: FolderNames, target_folder: str | None, mask_folder: str | None, direction: str
) -> tuple[dict[str, str], dict[str, str]]:
    """Return the patterns of sources and masks, and the pattern of targets, by type of map."""
    a = [pattern or "{split}_A" for pattern in folder_patterns(source_folder)]
    b = [target_folder or "{split}_B"]
    sources, targets = (a, b) if direction == "AtoB" else (b, a)
    masks = {"mask": mask_folder} if mask_folder else {}
    return {**dict(zip(source_kinds(len(sources)), sources, strict=True)), **masks}, {"target": targets[0]}


def _check_own_folders(split: str, patterns: Mapping[str, str]) -> None:
    for kind, pattern in patterns.items():
        check_own_folders(split, [pattern], f"data.{'mask' if kind == 'mask' else 'source'}_folder")


@dataclass(frozen=True)
class _Patient:
    """The volumes of a patient, cut along one axis."""

    name: str
    axis: Axis
    files: Mapping[str, VolumeFile]
    volumes: Mapping[str, CachedVolume]

    @property
    def n_slices(self) -> int:
        return len(self.volumes["source"].is_varied)

    def used_slices(self) -> list[int]:
        """Return the slices with a voxel inside the mask. Without a mask, source and target must vary in the slice."""
        if "mask" in self.volumes:
            return np.flatnonzero(self.volumes["mask"].is_inside).tolist()
        return np.flatnonzero(np.all([volume.is_varied for volume in self.volumes.values()], axis=0)).tolist()

    @property
    def sources(self) -> list[CachedVolume]:
        """The source volumes, in the order of the source folders."""
        return [volume for kind, volume in self.volumes.items() if is_source(kind)]


@dataclass(frozen=True)
class SliceRule:
    """How slices become samples.

    neighbours: Number of slices before and after a slice. Their values are further channels of its source. At the ends
        of a volume, the first or the last slice is repeated.
    scales_sources: Whether to map the `window` of each source volume to 0 and 1.
    least_sides: Least height and width. Smaller slices are padded with the lowest value of the volume.
    """

    axes: Sequence[Axis] = ("axial",)
    neighbours: int = 0
    scales_sources: bool = False
    least_sides: tuple[int, int] = (0, 0)

    @classmethod
    def of(
        cls,
        axis: Axis | Literal["all"],
        neighbours: int,
        source_range: Sequence[float] | str | None,
        preprocess: str,
        crop_height: int,
        crop_width: int,
    ) -> Self:
        """Return the rule for values of the settings."""
        least_sides = (crop_height, crop_width) if preprocess == "crop" else (0, 0)
        return cls(AXES if axis == "all" else (axis,), neighbours, source_range == OF_VOLUME, least_sides)

    def source(self, volume: CachedVolume, index: int) -> np.ndarray:
        """Return the `stack` of a slice, (2 * neighbours + 1, H, W), at least as large as `least_sides`."""
        lowest = 0 if self.scales_sources else volume.lowest
        return self.padded(self.stack(volume.slices(), index, volume.window), lowest)

    def stack(self, slices: np.ndarray, index: int, window: tuple[float, float]) -> np.ndarray:
        """Return a slice of a source with its neighbours, (2 * neighbours + 1, H, W). If sources are scaled, float32.

        slices: All slices, (S, H, W). window: Values that become 0 and 1 if sources are scaled.
        """
        reach = np.arange(index - self.neighbours, index + self.neighbours + 1)
        stack: np.ndarray = slices[reach.clip(0, len(slices) - 1)]
        low, high = map(np.float32, window)
        return (stack.astype(np.float32) - low) / (high - low) if self.scales_sources else stack

    def padded(self, slices: np.ndarray, value: float) -> np.ndarray:
        """Return (C, H, W) slices that are at least as large as `least_sides`."""
        lacking = [max(0, least - side) for least, side in zip(self.least_sides, slices.shape[1:], strict=True)]
        return np.pad(slices, [(0, 0), *((n // 2, n - n // 2) for n in lacking)], constant_values=value)


class PairedVolumes(RegisteredLayout):
    """A layout of slices. Each patient has a source volume, and in most cases a target volume and a mask.

    A slice is used if any of its voxels is inside the mask. Without masks, source and target must have more than one
    value in the slice. Slices that are not used still serve as neighbours.

    patients: The volumes. Types are `source_kinds`, "target" and "mask".
    folder: Folder of the cache.

    Raises:
        PairingError: A volume cannot be read, or the volumes of a patient differ in geometry.
    """

    has_volumes = True
    file_maps = frozenset({"source", "target", "mask"})
    unsupported = (
        *("data.n_classes", "data.label_colors", "data.instance_edges", "data.weight_folder", "features.n_channels"),
        *("style.channels", "generator.scale", "train.validation_group"),
    )

    def __init__(self, patients: Patients, folder: Path, rule: SliceRule = SliceRule()) -> None:
        self.folders, self._rule = patients.folders, rule
        opened, problems = list[_Patient](), [*patients.problems]
        for name, files in tqdm(patients.files.items(), "volumes", unit="patient", leave=False, disable=None):
            try:
                opened += [_opened(name, files, folder, axis) for axis in rule.axes]
            except DataError as error:
                if isinstance(error, LoadingError):  # no fault of the patient, such as a full disk
                    raise
                problems += error.problems
        self._patients = opened
        self._source_dtype = _common_dtype(volume for patient in opened for volume in patient.sources)
        self._target_dtype = _common_dtype(each.volumes["target"] for each in opened if "target" in each.volumes)
        self._slices = [(patient, index) for patient in opened for index in patient.used_slices()]
        has_axes = len(rule.axes) > 1
        places = (f"{patient.name}/{patient.axis}" if has_axes else patient.name for patient, _ in self._slices)
        self.names = [f"{place}/{index:04}" for place, (_, index) in zip(places, self._slices, strict=True)]
        if opened and not self._slices:
            problems.append(f"{patients.folders[0]}: no slice is used, because all are constant or outside the masks")
        self.patients = {patient.name: patient.volumes for patient in opened if patient.axis == rule.axes[0]}
        self.notes = self._notes() if opened else []
        if problems:
            is_unmatched = not patients.files and any("has no partner" in problem for problem in problems)
            raise PairingError(*problems, rest=self, remedy=_NO_PAIRS if is_unmatched else "")

    @classmethod
    def open(
        cls,
        split: str,
        *,
        root: Folder,
        source_folder: FolderNames,
        target_folder: str | None,
        mask_folder: str | None,
        direction: str,
        axis: Axis | Literal["all"],
        neighbours: int,
        source_range: Sequence[float] | str | None,
        cache: str,
        preprocess: str,
        crop_height: int,
        crop_width: int,
        needs_targets: bool,
    ) -> Layout:
        """Return a split of the data set. See RegisteredLayout."""
        sources, targets = volume_patterns(source_folder, target_folder, mask_folder, direction)
        patterns = sources | targets if needs_targets else existing_patterns(root, split, sources | targets)
        _check_own_folders(split, patterns)
        rule = SliceRule.of(axis, neighbours, source_range, preprocess, crop_height, crop_width)
        return cls(Patients.find(root, split, patterns), volume_folder(cache), rule)

    @classmethod
    def has_split(
        cls, split: str, *, root: Folder, source_folder: FolderNames, target_folder: str | None, direction: str
    ) -> bool:
        """See RegisteredLayout."""
        pattern = volume_patterns(source_folder, target_folder, None, direction)[0]["source"]
        return has_own_folder(split, pattern) and bool(found_volumes(root, split, pattern, []))

    @property
    def groups(self) -> Sequence[str]:
        """The patient of each sample."""
        return [patient.name for patient, _ in self._slices]

    def _notes(self) -> list[tuple[str, str]]:
        n_used, n_all = len(self), sum(patient.n_slices for patient in self._patients)
        volumes = [volume for patient in self._patients for volume in patient.volumes.values()]
        n_bytes = sum(Path(volume.file).stat().st_size for volume in volumes)
        of_patients = counted(len(self._patients) // len(self._rule.axes), "patient")
        notes = [
            ("slices", f"{n_used:,} of {n_all:,} slices of {of_patients}; the others are empty or outside the mask"),
            ("cache", f"{n_bytes / 2**20:,.0f} MiB of volumes in {Path(volumes[0].file).parents[1]}"),
        ]
        if self._rule.scales_sources:
            ends = zip(*(volume.window for patient in self._patients for volume in patient.sources), strict=True)
            low, high = (f"{exact(min(values))} to {exact(max(values))}" for values in ends)
            notes.append(("ranges", f"of each source volume: from {low}, up to {high}"))
        return [*notes, *describe_volumes(self.patients)]

    def provenance(self, index: int) -> Provenance:
        """See Layout."""
        patient, number = self._slices[index]
        return Provenance(f"slice {number} {self._rule}", patient.files)

    def read(self, index: int) -> Sample:
        """See Layout. Outside the mask, weights are 0, and targets have the lowest value of their volume.

        Otherwise the discriminator would see what is outside the body only in real targets, such as the table of a CT.
        """
        (patient, number), rule = self._slices[index], self._rule
        source = np.concatenate([rule.source(volume, number) for volume in patient.sources])
        target = mask = None
        if volume := patient.volumes.get("target"):
            target = rule.padded(volume.slices()[number][None], volume.lowest)
            if masks := patient.volumes.get("mask"):
                mask = rule.padded(masks.slices()[number][None], 0)
                target = np.where(mask > 0, target, target.dtype.type(volume.lowest))
        return Sample(
            self.names[index],
            source=_tensor(source, np.dtype(np.float32) if rule.scales_sources else self._source_dtype),
            target=None if target is None else _tensor(target, self._target_dtype),
            weights=None if mask is None else _tensor(mask * np.uint8(_INSIDE), np.dtype(np.uint8)),
        )


def _tensor(array: np.ndarray, dtype: np.dtype) -> Tensor:
    return torch.from_numpy(np.array(array, dtype))  # a copy, because the file is mapped into memory as read-only


def _common_dtype(volumes: Iterable[CachedVolume]) -> np.dtype:
    """Return the type for all values, so that slices of all patients fit in one batch: a type of files, or float32."""
    dtype = np.result_type(np.uint8, *{volume.dtype for volume in volumes})
    return np.dtype(np.float32) if dtype.itemsize > 2 else dtype


def _opened(name: str, files: Mapping[str, VolumeFile], folder: Path, axis: Axis) -> _Patient:
    """Return the volumes of a patient; raise DataError if a volume cannot be read or does not fit the source."""
    volumes = {k: cached_volume(file, folder, axis, is_mask=k == "mask") for k, file in files.items()}
    check_geometry(name, files, {kind: volume.geometry for kind, volume in volumes.items()})
    return _Patient(name, axis, files, volumes)


def check_geometry(name: str, files: Mapping[str, VolumeFile], geometries: Mapping[str, Geometry]) -> None:
    """Raise DataError if a volume of a patient does not have the geometry of the source."""
    for kind, geometry in geometries.items():
        if difference := geometries["source"].difference(geometry):
            raise DataError(f"{name}: {files['source']} and {files[kind]} have the {difference}. {_RESAMPLE}")


class UnpairedVolumes(UnpairedLayout):
    """A layout of slices of two domains, without pairs. Masks decide which slices are used."""

    has_volumes = True
    file_maps = frozenset({"source", "target", "mask"})
    unsupported = (*PairedVolumes.unsupported, "data.neighbours", "loss.outside_mask")
    has_split = PairedVolumes.has_split

    @classmethod
    def open(
        cls,
        split: str,
        *,
        root: Folder,
        source_folder: FolderNames,
        target_folder: str | None,
        mask_folder: str | None,
        direction: str,
        axis: Axis | Literal["all"],
        source_range: Sequence[float] | str | None,
        cache: str,
        preprocess: str,
        crop_height: int,
        crop_width: int,
        needs_targets: bool,
    ) -> Layout:
        """Return a split of the data set, or only its sources if targets are not needed. See RegisteredLayout."""
        patterns, targets = volume_patterns(source_folder, target_folder, mask_folder, direction)
        patterns = patterns if needs_targets else existing_patterns(root, split, patterns)
        of_targets = patterns | {"source": targets["target"]}
        sides, problems = list[Layout](), list[str]()
        for of_side, own_range in [(patterns, source_range), (of_targets, None)][: 1 + needs_targets]:
            _check_own_folders(split, of_side)
            rule = SliceRule.of(axis, 0, own_range, preprocess, crop_height, crop_width)
            patients = Patients.find(root, split, of_side)
            try:
                sides.append(PairedVolumes(patients, volume_folder(cache), rule))
            except PairingError as error:
                sides.append(error.rest)
                problems += error.problems
        layout = cls(*sides) if needs_targets else sides[0]
        if problems:
            raise PairingError(*problems, rest=layout)
        return layout
