"""The folder of the results of test.py: its name, its files, those that exist, and the record of what made them."""

import errno
import hashlib
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from pathlib import Path
from typing import Any

from configs.load import changed_settings
from configs.schema import Config
from data.batch import DataError
from data.layout import Layout
from data.store import File
from inference.image_store import ImageStore
from inference.inputs import common_folder
from inference.load import LoadedGenerator
from inference.predictor import Predictor
from inference.request import Existing, InputOptions
from models.instance_features import FeatureClusters
from utils.atomic_file import replacing
from utils.digest import sha256_of_file
from utils.lock_file import locked
from utils.log import logger
from utils.strict_json import read_json
from utils.text import counted

SHEET = "contact_sheet"
METRICS = "metrics.json"
GALLERY = "gallery"
INDEX = "index.html"
KINDS = ("source", "translated", "target", "difference")
SOURCES = f"{GALLERY}/{KINDS[0]}"
RECORD = f"{GALLERY}/origin.json"
_PLACES = ("step", "checkpoint", "folders")  # which change when files move, or follow from the rest
_MIXED = "mixed"  # whether the folder also holds translations of other origins, of other images
_SECTIONS = ("data.", "generator.", "features.", "style.")  # whose settings change translations, except for:
_WITHOUT_EFFECT = (
    *("data.root", "data.workers", "data.timeout_s", "data.cache"),
    *("data.flip", "data.augment.", "data.on_bad_sample", "data.validation_split", "data.weight_folder"),
    *("data.preprocess", "data.load_", "data.crop_", "data.test_split"),  # see "resizing", "split"
    "data.synthetic.",  # numbers of samples, and sizes, which an image that is kept must have
)


def default_output(loaded: LoadedGenerator, given: InputOptions) -> Path:
    """Return results/RUN/SPLIT_stepSTEP, with the name of the input in place of the split's where there is --input.

    Results of a run that has generators of two directions are in SPLIT_DIRECTION_stepSTEP.
    """
    name = given.split or loaded.config.data.test_split
    if given.paths:
        first, *others = given.paths
        is_file = first.is_file() and not others
        name = first.resolve().stem if is_file else common_folder(given.paths).name or "input"
    name = name.replace("/", "_")  # a split may be a nested folder; its results are not
    step = None if loaded.step is None else f"step{loaded.step}"
    return Path("results") / loaded.name / "_".join(filter(None, [name, loaded.named_direction, step]))


def gallery_image(kind: str, name: str) -> str:
    """Return the path of a sample's image in the gallery, relative to the output folder."""
    return f"{GALLERY}/{kind}/{name}.png"


@dataclass(frozen=True)
class OutputFolder:
    """The folder of the translations of a layout's samples, with their contact sheet, gallery and metrics.

    store: of the translated images.
    """

    path: Path
    layout: Layout
    store: ImageStore

    def source(self, index: int) -> File | None:
        """Return the file that the translation of sample `index` covers the same area as; None for drawn samples."""
        return self.layout.provenance(index).files.get("source")

    @cached_property
    def _suffixes(self) -> dict[str, str]:
        return {name: self.store.suffix_of(self.source(index)) for index, name in enumerate(self.layout.names)}

    def image(self, name: str) -> Path:
        """Return the file of a sample's translated image, also of a sample of an earlier translation."""
        suffix = self._suffixes.get(name)
        if suffix is None and self.store.follows_sources and (file := self.path / f"{name}.tif").exists():
            return file
        return self.path / f"{name}{suffix or self.store.suffix}"

    def is_foreign(self, name: str) -> bool:
        """Return whether a file is in the place of the translated image of a sample, and test.py did not write it.

        Beside each of its images test.py leaves the source in the gallery, which it writes first.
        """
        return self.image(name).exists() and not (self.path / gallery_image(KINDS[0], name)).exists()

    def prepare(self, existing: Existing) -> None:
        """Create the folder.

        existing: "replace" overwrites any file; "refuse" only results of test.py; "keep" neither these nor other
            images.

        Raises:
            DataError: results would overwrite inputs, each other or files that have to stay, or be outside the folder.
            OSError: the folder cannot be created, or not be written to.
        """
        output, names, written = self.path, self.layout.names, self.path.resolve()
        if written.exists() and not written.is_dir():
            raise DataError(f"--output: {output} is a file. Choose another --output.")
        for folder in (Path(str(folder)) for folder in self.layout.folders):
            if folder.resolve() in (written, *written.parents):
                where = "the folder of the" if folder.resolve() == written else f"inside {folder}, which holds"
                raise DataError(f"--output: {output} is {where} inputs. Choose another --output.")
        if SHEET in names:
            raise DataError(f"--input: {SHEET} is the name of the contact sheet among the results. Rename the input.")
        if inside := next((name for name in names if name.split("/")[0] == GALLERY), None):
            raise DataError(f"--input: {inside}: {GALLERY} is a folder of the results. Rename the input.")
        for place, file in self._results().items():
            if not place.is_relative_to(written):
                raise DataError(f"--output: {file} is a link to {place}, outside the output folder. Remove the link.")
        if existing != "replace":
            self._refuse_foreign([] if existing == "keep" else names)
        create_writable(output)

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Keep other processes from writing results into the folder.

        Raises:
            DataError: another process writes results there.
        """
        gallery = self.path / GALLERY
        gallery.mkdir(exist_ok=True)
        with output_lock(gallery / ".lock", self.path):
            yield

    def _results(self) -> dict[Path, Path]:
        """Return the files to be written, by their resolved paths; raise DataError where two of them collide."""
        names = self.layout.names
        files = [self.image(name) for name in names]
        files += [self.path / name for name in (f"{SHEET}.png", METRICS, INDEX)]
        files += [self.path / gallery_image(kind, name) for name in names for kind in KINDS]
        results = {file.resolve(): file for file in files}
        if overwritten := results.keys() & {Path(str(file)).resolve() for file in self.layout.files}:
            raise DataError(f"--output: results would overwrite the input {min(overwritten)}. Choose another --output.")
        if taken := set(files) & set(chain.from_iterable(file.parents for file in files)):
            raise DataError(f"--input: {min(taken)} would be both a result and a folder of results. Rename an input.")
        return results

    def _refuse_foreign(self, names: Sequence[str]) -> None:
        """Raise DataError if test.py did not write a report that exists, or the image of one of `names`."""
        foreign = [self.image(name) for name in names if self.is_foreign(name)]
        reports = [self.path / name for name in (f"{SHEET}.png", INDEX, METRICS) if (self.path / name).exists()]
        if (self.path / SOURCES).is_dir():
            reports = []
        if foreign := foreign + reports:
            files = f"{foreign[0]}" + (f" and {counted(len(foreign) - 1, 'other file')}" if foreign[1:] else "")
            choice = "replace" if reports else "replace or keep"  # images only can be kept
            raise DataError(
                f"--output: {files} would be overwritten, which test.py did not write. Choose another --output, or "
                f"--existing {choice}."
            )

    def record(self, origin: Mapping[str, Any], existing: Existing) -> None:
        """Write the origin of the translations that follow; delete those of these images that have another origin.

        Otherwise `--existing keep`, after a translation that was interrupted, would keep them as ones of this origin.

        Raises:
            DataError: existing translations are to be kept, and have another origin or none that is recorded.
        """
        record = as_recorded(origin) | {_MIXED: False}
        sources = self.path / SOURCES
        names = {file.relative_to(sources).as_posix().removesuffix(".png") for file in sources.rglob("*.png")}
        present = {name for name in names if self.image(name).is_file()}
        recorded = read_record(self.path / RECORD) if present else record
        if recorded != record:
            is_reversed = (recorded or record).get("direction") != record.get("direction")
            if existing == "keep" or (existing == "refuse" and is_reversed):
                found = other_origin(record, recorded)
                raise DataError(
                    f"--output: {self.path} holds translations of {found}. Choose another --output, or --existing "
                    "replace."
                )
            record[_MIXED] = bool(present - set(self.layout.names))
            if replaced := present & set(self.layout.names):
                found = other_origin(record, recorded)
                logger.warning("replacing    %s in %s of %s", counted(len(replaced), "image"), self.path, found)
            for name in replaced:
                self.image(name).unlink()
        write_record(record, self.path / RECORD)


@contextmanager
def output_lock(file: Path, output: Path) -> Iterator[None]:
    """Hold the lock of an output, a file that is deleted at the end; raise DataError if another process holds it."""
    refusal = f"--output: another process writes to {output}. Wait for it, or choose another --output."
    with locked(file, DataError(refusal)):
        try:
            yield
        finally:
            with suppress(OSError):  # Windows deletes no open files
                file.unlink()


def create_writable(folder: Path) -> None:
    """Create a folder; raise OSError if it cannot be created, or not be written to."""
    folder.mkdir(parents=True, exist_ok=True)
    if not os.access(folder, os.W_OK | os.X_OK):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(folder))


def generator_origin(loaded: LoadedGenerator, predictor: Predictor, *, keeps_sizes: bool) -> dict[str, Any]:
    """Return the description of the generator and its settings, whatever its input."""
    data, precision, tiles = loaded.config.data, predictor.precision, predictor.tiles
    sizes = f"load {data.load_width}x{data.load_height}, crop {data.crop_width}x{data.crop_height}"
    resizing = (
        f"data.preprocess={data.preprocess} ({sizes}), bicubic with antialiasing, label maps by nearest neighbour"
    )
    return {
        "step": loaded.step,
        "checkpoint": str(loaded.file),
        "checkpoint_sha256": loaded.sha256 or sha256_of_file(loaded.file),
        **({"direction": loaded.named_direction} if loaded.named_direction else {}),
        "weights": loaded.weights,
        "precision": f"{precision.opt_level} {precision.compute_dtype}".replace("torch.", ""),
        "resizing": "none" if keeps_sizes or data.preprocess == "none" else resizing,
        "tta": "flip" if predictor.flips else None,
        "noise_seed": predictor.seed if predictor.noise else None,
        "tile": tiles.generator.tile if tiles else None,
        **({"norm_window": tiles.generator.at_once} if tiles and tiles.generator.is_windowed else {}),
        "feature_seed": predictor.seed if predictor.clusters else None,
        "clusters_sha256": _digest(predictor.clusters) if predictor.clusters else None,
        **({"noise_channels_seed": predictor.seed} if predictor.has_noise_channels else {}),
        **({"style_seed": predictor.seed} if predictor.draws_style else {}),
        **({"style_sha256": sha256_of_file(predictor.style.file)} if predictor.style else {}),
        **settings_of(loaded.config),
    }


def settings_of(config: Config) -> dict[str, object]:
    """Return the settings that change translations, by `section.key`, as far as they differ from their defaults.

    Of mappings, whose order counts, the SHA-256.
    """
    return {
        key: hashlib.sha256(json.dumps(value).encode()).hexdigest() if isinstance(value, dict) else value
        for key, value in changed_settings(config).items()
        if key.startswith(_SECTIONS) and not key.startswith(_WITHOUT_EFFECT)
    }


def _digest(clusters: FeatureClusters) -> str:
    """Return the SHA-256 of the centres of the clusters."""
    digest = hashlib.sha256()
    for class_id, centers in sorted(clusters.centers.items()):
        digest.update(f"{class_id} {tuple(centers.shape)}".encode())
        digest.update(centers.cpu().contiguous().numpy().tobytes())
    return digest.hexdigest()


def as_recorded(origin: Mapping[str, Any]) -> dict[str, Any]:
    """Return an origin as its record is read back, without what changes when files move."""
    kept = {name: value for name, value in origin.items() if name not in _PLACES}
    return dict(json.loads(json.dumps(kept)))


def other_origin(record: Mapping[str, Any], recorded: Mapping[str, Any] | None) -> str:
    """Return the words for a recorded origin that differs from `record`, with the names of what differs."""
    if not recorded:
        return "an origin that is not recorded"
    names = [name for name in {**record, **recorded} if recorded.get(name, ...) != record.get(name, ...)]
    return f"another origin ({', '.join(names)})"


def write_record(record: Mapping[str, Any], file: Path) -> None:
    """Write an origin as JSON, atomically."""
    with replacing(file) as temporary:
        temporary.write_text(json.dumps(record, indent=2) + "\n", encoding="utf-8")


def read_record(file: Path) -> dict[str, Any] | None:
    """Return the recorded origin; None where there is none that can be read."""
    try:
        record = read_json(file.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return record if isinstance(record, dict) else None
