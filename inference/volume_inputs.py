"""Find the volumes to translate: a split of the data set, or the files and folders of --input."""

from itertools import cycle
from pathlib import Path

from configs.data_facts import volume_patterns
from configs.splits import HELD_BACK, TRAIN, check_has_split
from data.batch import DataError
from data.files.volume_file import VOLUME_SUFFIXES, is_series, volume_name
from data.folder import LocalFolder, data_set_folder
from data.map_reader import is_source, source_kinds
from data.validation_split import split_validation
from data.volume_cache import VolumeFile
from data.volumes import PATIENT, Patients, find_volumes
from inference.load import LoadedGenerator
from inference.request import Request

_HERE = LocalFolder(Path())


def volumes_of_split(loaded: LoadedGenerator, split: str) -> Patients:
    """Return the patients of a split. Targets and masks that exist are included.

    Raises:
        DataError: The split does not exist.
    """
    config, patterns = loaded.config, volume_patterns(loaded.config.data)
    check_has_split(config, split, other_choice="--input PATH")
    if not config.method.declaration.pairs:
        patterns = {kind: pattern for kind, pattern in patterns.items() if kind != "target"}
    root, files_of = data_set_folder(config.data.root), TRAIN if split == HELD_BACK else split
    patients = Patients.find(root, files_of, patterns, needs_all=False)
    if split != HELD_BACK:
        return patients
    _, part = split_validation(patients, config.train.validation_share)
    return Patients({name: patients.by_name[name] for name in part.names}, patients.folders, patients.problems)


def volumes_of_input(loaded: LoadedGenerator, request: Request) -> Patients:
    """Return the volumes of --input, with the volumes of --targets and the masks of --mask.

    Each path is a volume, the folder of a DICOM series, or a folder with a volume per patient. For a generator with
    several source folders, there is one path for each of them.

    Raises:
        DataError: A path holds no volume, or a source has no partner.
    """
    found = dict[str, dict[str, VolumeFile]]()
    patterns = volume_patterns(loaded.config.data)
    sources = [pattern for kind, pattern in patterns.items() if is_source(kind)]
    if len(sources) > 1 and len(request.input) != len(sources):
        raise DataError(f"--input: needs {len(sources)} paths, in the order {', '.join(sources)}.")
    kinds = source_kinds(len(sources)) if len(sources) > 1 else ["source"] * len(request.input)
    given = [("--input", *each) for each in zip(kinds, request.input, cycle(sources), strict=False)]
    given += [("--targets", "target", request.targets, patterns["target"])] if request.targets else []
    given += [("--mask", "mask", request.mask, patterns.get("mask", PATIENT))] if request.mask else []
    for option, kind, path, pattern in given:
        of_path, others = _named(path, pattern, option), found.setdefault(kind, {})
        if of_path.keys() & others.keys():
            raise DataError(f"{option}: two volumes have the same name. Translate them one after the other.")
        others |= of_path
    if all(len(volumes) == 1 for volumes in found.values()):  # single volumes can have different names
        (name,) = found["source"]
        return Patients({name: {kind: next(iter(volumes.values())) for kind, volumes in found.items()}}, [])
    return Patients.matched(found, needed=["source"])  # targets and masks of other patients may exist


def _named(path: Path, pattern: str, option: str) -> dict[str, VolumeFile]:
    """Return the volumes of a path by patient. `pattern` is the pattern in the data set that the network learned."""
    if not path.exists():
        raise DataError(f"{option}: {path}: no such file or folder")
    path = path.absolute()
    name = volume_name(path.name)
    if (path.is_file() and name != path.name) or is_series(path):
        return {name: VolumeFile(LocalFolder(path.parent), path.name)}
    before, patient, after = pattern.partition(PATIENT)
    tail = f"{before.rpartition('/')[2]}{patient}{after}" if patient else PATIENT
    for below in dict.fromkeys((tail, PATIENT)):
        if found := find_volumes(_HERE, TRAIN, f"{path}/{below}"):
            own = found.get(after.strip("/")) if below == PATIENT else None  # the path is the folder of one patient
            return {path.name: own} if own else found
    raise DataError(f"{option}: {path}: holds no volume. Name a folder of {', '.join(VOLUME_SUFFIXES)} or DICOM files.")
