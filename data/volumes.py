"""Layouts `paired_volumes` and `unpaired_volumes`. A sample is a slice of the volumes of a patient."""

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath
from typing import NamedTuple, Self

import numpy as np
import torch
from torch import Tensor
from tqdm import tqdm

from data.batch import DataError, LoadingError, Sample
from data.files.volume_file import VOLUME_SUFFIXES, Volume, is_series, read_volume, volume_name
from data.folder import Folder, LocalFolder
from data.layout import Layout, PairingError, Provenance, RegisteredLayout
from data.map_reader import is_source
from data.paired_folders import IF_MISSING, check_own_folders, has_own_folder, match_names
from data.unpaired_folders import UnpairedLayout
from data.volume_cache import Axis, CachedVolume, VolumeFile, cached_volume, volume_folder
from data.volume_checks import describe_volumes
from utils.text import counted

PATIENT = "{patient}"  # place of the patient's name in a pattern. A name can contain "/"
_RESAMPLE = "Resample one onto the other, as with SimpleITK.Resample(source, target)."
_NO_PAIRS = "for volumes that are not pairs set data.layout=unpaired_volumes and method.name=contrastive or cycle"
_INSIDE = 255  # weight 1 in uint8

Patterns = Mapping[str, str]
"""Pattern of the volumes by type of map: `source_kinds`, "target" and "mask"."""


class Patients(Layout):
    """The patients of a split. A sample has the whole volumes of a patient.

    by_name: For each patient, the volumes by type of map.
    folders: Folders of the volumes.
    problems: Messages about patients whose volumes are not complete. These patients are not in `by_name`.
    """

    def __init__(
        self, by_name: Mapping[str, Mapping[str, VolumeFile]], folders: Sequence[Folder], problems: Sequence[str] = ()
    ) -> None:
        self.names, self.folders = list(by_name), folders
        self.by_name, self.problems = by_name, problems

    @classmethod
    def find(cls, root: Folder, split: str, patterns: Patterns, *, needs_all: bool) -> Self:
        """Return the volumes that fit the patterns. Masks of other patients may exist.

        needs_all: Whether targets and masks are required. Sources are always required.

        Raises:
            DataError: A pattern has no folder for the split. Or see `find_volumes`.
        """
        found, problems = dict[str, dict[str, VolumeFile]](), list[str]()
        for kind, pattern in patterns.items():
            if needs_all or is_source(kind):
                check_own_folders(split, [pattern], f"data.{'mask' if kind == 'mask' else 'source'}_folder")
            volumes = find_volumes(root, split, pattern)
            if volumes or needs_all or is_source(kind):
                found[kind] = volumes
                problems += [] if volumes else [_absence(root, split, pattern) + IF_MISSING.get(kind, "")]
        patients = cls.matched(found, needed=found.keys() - {"mask"})
        return cls(patients.by_name, patients.folders, [*problems, *patients.problems])

    @classmethod
    def matched(cls, found: Mapping[str, Mapping[str, VolumeFile]], *, needed: Collection[str]) -> Self:
        """Return the patients that have all types of maps.

        found: Volumes by type of map and name, sources first.
        needed: Types of maps. `problems` names their volumes without partners.
        """
        problems = list[str]()
        folders = {kind: next(iter(files.values())).folder for kind, files in found.items() if files}
        names, matching = match_names(found, folders, problems)
        by_name = {name: {kind: each[number] for kind, each in matching.items()} for number, name in enumerate(names)}
        named = tuple(f"{file}:" for kind in needed for file in found[kind].values())
        return cls(by_name, list(folders.values()), [problem for problem in problems if problem.startswith(named)])

    def provenance(self, index: int) -> Provenance:
        """See Layout."""
        return Provenance("volumes", self.by_name[self.names[index]])

    def volumes(self, index: int) -> dict[str, Volume]:
        """Read the volumes of a patient, by type of map; raise DataError if they cannot be read or do not fit."""
        name = self.names[index]
        volumes = {kind: read_volume(file.path) for kind, file in self.by_name[name].items()}
        _check_geometry(name, self.by_name[name], volumes)
        return volumes

    def read(self, index: int) -> Sample:
        """Return a sample with the first source volume, (D, H, W), and the target and mask if they exist."""
        maps = {kind: torch.from_numpy(volume.array) for kind, volume in self.volumes(index).items()}
        return Sample(self.names[index], source=maps["source"], target=maps.get("target"), weights=maps.get("mask"))


def find_volumes(root: Folder, split: str, pattern: str) -> dict[str, VolumeFile]:
    """Return the volumes whose paths fit a pattern, by patient.

    pattern: Path below `root` without the suffix of the files. A pattern without {patient} is a folder with a volume
        per patient. A pattern without {split} is only for the split train.

    Raises:
        DataError: The data set is not on a local disk, or two volumes of a folder have the same name.
    """
    folder, rest = _place(root, split, pattern)
    if not has_own_folder(split, pattern) or not folder.exists():
        return {}
    first, *others = map(re.escape, rest.split(PATIENT))
    rule = re.compile(first + "(?P<patient>.+)" + "(?P=patient)".join(others))
    names = [file.name for file in folder.files()]
    volumes = {name: volume_name(name) for name in names if name.lower().endswith(VOLUME_SUFFIXES)}
    parents = {PurePosixPath(name).parent.as_posix() for name in names if name not in volumes} - {"."}
    volumes |= {name: name for name in parents if rule.fullmatch(name) and is_series(Path(folder.path, name))}
    found = dict[str, VolumeFile]()
    for name in sorted(volumes):
        if match := rule.fullmatch(volumes[name]):
            file = VolumeFile(folder, name)
            if (other := found.setdefault(match["patient"], file)) is not file:
                raise DataError(f"{file} and {other} have the same name: keep one of them")
    return found


def _place(root: Folder, split: str, pattern: str) -> tuple[LocalFolder, str]:
    """Return the innermost folder that contains all volumes of a pattern, and the part of the pattern below it."""
    if not isinstance(root, LocalFolder):
        raise DataError(f"{root}: volumes cannot be read from tar files. Unpack the files.")
    pattern = pattern.replace("{split}", split).rstrip("/")
    pattern = pattern if PATIENT in pattern else f"{pattern}/{PATIENT}"
    folder = pattern.partition(PATIENT)[0].rpartition("/")[0]
    return root / folder if folder else root, pattern.removeprefix(f"{folder}/")


def _absence(root: Folder, split: str, pattern: str) -> str:
    """Return a message about a pattern that no volume fits."""
    folder, rest = _place(root, split, pattern)
    if not folder.exists():
        return f"{folder}: {folder.absence()}"
    expected = f"{folder / rest} with {', '.join(VOLUME_SUFFIXES)}, or a folder of DICOM files"
    return f"{folder}: holds no volume of the split {split}, expected {expected}"


def _check_geometry(
    name: str, files: Mapping[str, VolumeFile], volumes: Mapping[str, Volume] | Mapping[str, CachedVolume]
) -> None:
    """Raise DataError if a volume of a patient does not have the geometry of the source."""
    for kind, volume in volumes.items():
        if difference := volumes["source"].geometry.difference(volume.geometry):
            raise DataError(f"{name}: {files['source']} and {files[kind]} have the {difference}. {_RESAMPLE}")


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

    def source(self, slices: np.ndarray, index: int, window: tuple[float, float]) -> np.ndarray:
        """Return a slice of a source with its neighbours, (2 * neighbours + 1, H, W).

        slices: All slices, (S, H, W). window: Values that become 0 and 1, as float32, if sources are scaled.
        """
        reach = np.arange(index - self.neighbours, index + self.neighbours + 1)
        stack: np.ndarray = slices[reach.clip(0, len(slices) - 1)]
        low, high = map(np.float32, window)
        return (stack.astype(np.float32) - low) / (high - low) if self.scales_sources else stack

    def padded(self, slices: np.ndarray, value: float) -> np.ndarray:
        """Return (C, H, W) slices that are at least as large as `least_sides`."""
        lacking = [max(0, least - side) for least, side in zip(self.least_sides, slices.shape[1:], strict=True)]
        widths = [(0, 0), *((number // 2, number - number // 2) for number in lacking)]
        return np.pad(slices, widths, constant_values=value) if any(lacking) else slices


class _Slice(NamedTuple):
    """A slice of the volumes of a patient, cut along one axis."""

    patient: str
    axis: Axis
    volumes: Mapping[str, CachedVolume]
    number: int


class PairedVolumes(RegisteredLayout):
    """A layout of slices. Each patient has a source volume, and in most cases a target volume and a mask.

    A slice is used if any of its voxels is inside the mask. Without masks, source and target must have more than one
    value in the slice. Slices that are not used still serve as neighbours.

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
        self.folders, self._rule, self._files = patients.folders, rule, patients.by_name
        opened, problems = dict[str, dict[Axis, Mapping[str, CachedVolume]]](), [*patients.problems]
        for name, files in tqdm(self._files.items(), "volumes", unit="patient", leave=False, disable=None):
            try:
                opened[name] = {axis: _opened(name, files, folder, axis) for axis in rule.axes}
            except LoadingError:  # no fault of the patient, such as a full disk
                raise
            except DataError as error:
                problems += error.problems
        self.patients = {name: by_axis[rule.axes[0]] for name, by_axis in opened.items()}
        self._dtypes = {kind: _common_dtype(kind, self.patients.values()) for kind in ("source", "target")}
        cuts = [(name, axis, volumes) for name, by_axis in opened.items() for axis, volumes in by_axis.items()]
        self._slices = [_Slice(*cut, number) for cut in cuts for number in _used_slices(cut[-1])]
        place = "{}/{}" if len(rule.axes) > 1 else "{}"
        self.names = [f"{place.format(each.patient, each.axis)}/{each.number:04}" for each in self._slices]
        if opened:
            n_all = sum(len(volumes["source"].is_used) for *_, volumes in cuts)
            used = f"{len(self):,} of {n_all:,} slices of {counted(len(opened), 'patient')}"
            lines = describe_volumes(self.patients, len(rule.axes), has_windows=rule.scales_sources)
            self.notes = [("slices", f"{used}; the others are empty or outside the mask"), *lines]
            if not self._slices:
                problems.append(f"{self.folders[0]}: no slice is used, because all are constant or outside the masks")
        if problems:
            is_unmatched = not self._files and any("has no partner" in problem for problem in problems)
            raise PairingError(*problems, rest=self, remedy=_NO_PAIRS if is_unmatched else "")

    @classmethod
    def open(
        cls, split: str, *, root: Folder, patterns: Patterns, slice_rule: SliceRule, cache: str, needs_targets: bool
    ) -> Layout:
        """Return a split of the data set. See RegisteredLayout."""
        patients = Patients.find(root, split, patterns, needs_all=needs_targets)
        return cls(patients, volume_folder(cache), slice_rule)

    @classmethod
    def has_split(cls, split: str, *, root: Folder, patterns: Patterns) -> bool:
        """See RegisteredLayout."""
        return bool(find_volumes(root, split, patterns["source"]))

    @property
    def groups(self) -> Sequence[str]:
        """The patient of each sample."""
        return [each.patient for each in self._slices]

    def provenance(self, index: int) -> Provenance:
        """See Layout."""
        patient, _, _, number = self._slices[index]
        return Provenance(f"slice {number} {self._rule}", self._files[patient])

    def read(self, index: int) -> Sample:
        """See Layout. Outside the mask, weights are 0, and targets have the lowest value of their volume.

        Otherwise the discriminator would see what is outside the body only in real targets, such as the table of a CT.
        """
        (_, _, volumes, number), rule = self._slices[index], self._rule
        sources = [volume for kind, volume in volumes.items() if is_source(kind)]
        stacks = [rule.source(volume.slices(), number, volume.window) for volume in sources]
        lowest = [0 if rule.scales_sources else volume.lowest for volume in sources]
        source = np.concatenate([*map(rule.padded, stacks, lowest)])
        target = mask = None
        if volume := volumes.get("target"):
            target = rule.padded(volume.slices()[number][None], volume.lowest)
            if masks := volumes.get("mask"):
                mask = rule.padded(masks.slices()[number][None], 0)
                target = np.where(mask > 0, target, target.dtype.type(volume.lowest))
        return Sample(
            self.names[index],
            source=_tensor(source, np.dtype(np.float32) if rule.scales_sources else self._dtypes["source"]),
            target=None if target is None else _tensor(target, self._dtypes["target"]),
            weights=None if mask is None else _tensor(mask * np.uint8(_INSIDE), np.dtype(np.uint8)),
        )


def _opened(name: str, files: Mapping[str, VolumeFile], folder: Path, axis: Axis) -> Mapping[str, CachedVolume]:
    """Return the volumes of a patient; raise DataError if a volume cannot be read or does not fit the source."""
    volumes = {k: cached_volume(file, folder, axis, is_mask=k == "mask") for k, file in files.items()}
    _check_geometry(name, files, volumes)
    return volumes


def _used_slices(volumes: Mapping[str, CachedVolume]) -> list[int]:
    """Return the slices with a voxel inside the mask. Without a mask, source and target must vary in the slice."""
    used = [volumes["mask"]] if "mask" in volumes else volumes.values()
    return np.flatnonzero(np.all([volume.is_used for volume in used], axis=0)).tolist()


def _common_dtype(kind: str, patients: Iterable[Mapping[str, CachedVolume]]) -> np.dtype:
    """Return a type that holds the sources or targets of all patients, so that their slices fit in one batch."""
    dtypes = {volume.dtype for volumes in patients for name, volume in volumes.items() if name.startswith(kind)}
    dtype = np.result_type(np.uint8, *dtypes)
    return np.dtype(np.float32) if dtype.itemsize > 2 else dtype


def _tensor(array: np.ndarray, dtype: np.dtype) -> Tensor:
    return torch.from_numpy(np.array(array, dtype))  # a copy, because the file is mapped into memory as read-only


class UnpairedVolumes(UnpairedLayout):
    """A layout of slices of two domains, without pairs. Masks decide which slices are used."""

    has_volumes = True
    file_maps = PairedVolumes.file_maps
    unsupported = (*PairedVolumes.unsupported, "data.neighbours", "loss.outside_mask")
    has_split = PairedVolumes.has_split

    @classmethod
    def open(
        cls, split: str, *, root: Folder, patterns: Patterns, slice_rule: SliceRule, cache: str, needs_targets: bool
    ) -> Layout:
        """Return a split of the data set, or only its sources if targets are not needed. See RegisteredLayout."""
        of_source = {kind: pattern for kind, pattern in patterns.items() if kind != "target"}
        of_target = {kind.replace("target", "source"): patterns[kind] for kind in patterns if not is_source(kind)}
        rules = (slice_rule, replace(slice_rule, scales_sources=False))
        sides, problems = list[Layout](), list[str]()
        for of_side, rule in list(zip((of_source, of_target), rules, strict=True))[: 1 + needs_targets]:
            patients = Patients.find(root, split, of_side, needs_all=needs_targets)
            try:
                sides.append(PairedVolumes(patients, volume_folder(cache), rule))
            except PairingError as error:
                sides.append(error.rest)
                problems += error.problems
        layout = cls(*sides) if needs_targets else sides[0]
        if problems:
            raise PairingError(*problems, rest=layout)
        return layout
