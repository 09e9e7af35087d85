"""Find the volumes to translate: a split of the data set, or the files and folders of --input."""

from dataclasses import replace
from itertools import cycle
from pathlib import Path

import torch

from configs.splits import HELD_BACK, TRAIN, check_has_split
from data.batch import DataError, Sample
from data.files.volume_file import VOLUME_SUFFIXES, Volume, is_series, read_volume, volume_name
from data.folder import Folder, LocalFolder, data_set_folder
from data.layout import Layout, Provenance
from data.map_reader import source_kinds
from data.paired_folders import folder_patterns, match_names
from data.validation_split import is_held_back
from data.volume_cache import VolumeFile
from data.volumes import PATIENT, Patients, check_geometry, existing_patterns, found_volumes, volume_patterns
from inference.load import LoadedGenerator
from inference.request import Request

_HERE = LocalFolder(Path())


class WholeVolumes(Layout):
    """A layout whose samples are patients with whole volumes."""

    def __init__(self, patients: Patients) -> None:
        self.names, self.folders = list(patients.files), patients.folders
        self._files = list(patients.files.values())

    def provenance(self, index: int) -> Provenance:
        """See Layout."""
        return Provenance("volumes", self._files[index])

    def volumes(self, index: int) -> dict[str, Volume]:
        """Read the volumes of a patient, by type of map; raise DataError if they cannot be read or do not fit."""
        files = self._files[index]
        volumes = {kind: read_volume(file.path) for kind, file in files.items()}
        check_geometry(self.names[index], files, {kind: volume.geometry for kind, volume in volumes.items()})
        return volumes

    def read(self, index: int) -> Sample:
        """Return a sample with the first source volume, (D, H, W), and the target and mask if they exist."""
        maps = {kind: torch.from_numpy(volume.array) for kind, volume in self.volumes(index).items()}
        return Sample(self.names[index], source=maps["source"], target=maps.get("target"), weights=maps.get("mask"))


def volumes_of_split(loaded: LoadedGenerator, split: str) -> Patients:
    """Return the patients of a split. Targets and masks that exist are included.

    Raises:
        DataError: The split does not exist.
    """
    config, data = loaded.config, loaded.config.data
    check_has_split(config, split, other_choice="--input PATH")
    is_part, share = split == HELD_BACK, config.train.validation_share
    files_of, root = TRAIN if is_part else split, data_set_folder(data.root)
    patterns, targets = volume_patterns(data.source_folder, data.target_folder, data.mask_folder, data.direction)
    if loaded.config.method.declaration.pairs:
        patterns |= targets
    patients = Patients.find(root, files_of, existing_patterns(root, files_of, patterns))
    if not is_part:
        return patients
    return replace(patients, files={name: v for name, v in patients.files.items() if is_held_back(name, share)})


def volumes_of_input(loaded: LoadedGenerator, request: Request) -> Patients:
    """Return the volumes of --input, with the volumes of --targets and the masks of --mask.

    Each path is a volume, the folder of a DICOM series, or a folder with a volume per patient. For a generator with
    several source folders, there is one path for each of them.

    Raises:
        DataError: A path holds no volume, or a source has no partner.
    """
    data, found = loaded.config.data, dict[str, dict[str, VolumeFile]]()
    patterns = [pattern or PATIENT for pattern in folder_patterns(data.source_folder)]
    if len(patterns) > 1 and len(request.input) != len(patterns):
        raise DataError(f"--input: needs {len(patterns)} paths, in the order {', '.join(patterns)}.")
    kinds = source_kinds(len(patterns)) if len(patterns) > 1 else ["source"] * len(request.input)
    given = [("--input", *each) for each in zip(kinds, request.input, cycle(patterns), strict=False)]
    given += [("--targets", "target", request.targets, data.target_folder or PATIENT)] if request.targets else []
    given += [("--mask", "mask", request.mask, data.mask_folder or PATIENT)] if request.mask else []
    for option, kind, path, pattern in given:
        of_path, others = _named(path, pattern, option), found.setdefault(kind, {})
        if of_path.keys() & others.keys():
            raise DataError(f"{option}: two volumes have the same name. Translate them one after the other.")
        others |= of_path
    if all(len(volumes) == 1 for volumes in found.values()):  # single volumes can have different names
        (name,) = found["source"]
        return Patients({name: {kind: next(iter(volumes.values())) for kind, volumes in found.items()}}, [])
    folders: dict[str, Folder] = {kind: next(iter(volumes.values())).folder for kind, volumes in found.items()}
    problems = list[str]()
    names, files = match_names(found, folders, problems)
    sources = tuple(f"{file}:" for file in found["source"].values())
    problems = [problem for problem in problems if problem.startswith(sources)]  # further targets and masks may exist
    by_name = {name: {kind: each[index] for kind, each in files.items()} for index, name in enumerate(names)}
    return Patients(by_name, list(folders.values()), problems)


def _named(path: Path, pattern: str, option: str) -> dict[str, VolumeFile]:
    """Return the volumes of a path by patient. `pattern` is the pattern in the data set that the network learned."""
    if not path.exists():
        raise DataError(f"{option}: {path}: no such file or folder")
    path, name = path.absolute(), volume_name(path.name)
    if (path.is_file() and name != path.name) or is_series(path):
        return {name: VolumeFile(LocalFolder(path.parent), path.name)}
    before, patient, after = pattern.partition(PATIENT)
    tail = f"{before.rpartition('/')[2]}{patient}{after}" if patient else PATIENT
    for below in dict.fromkeys((tail, PATIENT)):
        if found := found_volumes(_HERE, TRAIN, f"{path}/{below}", []):
            return found
    raise DataError(f"{option}: {path}: holds no volume. Name a folder of {', '.join(VOLUME_SUFFIXES)} or DICOM files.")
