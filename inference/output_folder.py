"""The folder of the results of test.py: its name, its files, those that exist, and the record of what made them."""

import errno
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from pathlib import Path
from typing import Any

from data.batch import DataError
from data.folder import File
from data.layout import Layout
from inference.image_store import ImageStore
from inference.inputs import common_folder
from inference.load import LoadedGenerator
from inference.origin import NOT_COMPARED, differences
from inference.request import Existing, InputOptions
from utils.files import locked, replacing
from utils.log import logger
from utils.plain_values import read_json
from utils.text import counted

SHEET = "contact_sheet"
METRICS = "metrics.json"
GALLERY = "gallery"
INDEX = "index.html"
KINDS = ("source", "translated", "target", "difference")
SOURCES = f"{GALLERY}/{KINDS[0]}"
RECORD = f"{GALLERY}/origin.json"
_REPORTS = (f"{SHEET}.png", INDEX, METRICS)
_MIXED = "mixed"  # whether the folder also holds translations of other images that have another origin


def default_output(loaded: LoadedGenerator, given: InputOptions) -> Path:
    """Return results/RUN/SPLIT_stepSTEP, or results/RUN/INPUT_stepSTEP with the name of --input.

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

    store: Writes and reads the translated images.
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
        """Return whether a file has the name of a sample's translated image, and test.py did not write it.

        For each of its images test.py leaves the source in the gallery, which it writes first.
        """
        return self.image(name).exists() and not (self.path / gallery_image(KINDS[0], name)).exists()

    def prepare(self, existing: Existing) -> None:
        """Create the folder.

        existing: "replace" overwrites any file; "refuse" only results of test.py; "keep" neither these nor other
            images.

        Raises:
            DataError: Results would overwrite inputs, each other or files that have to stay, or be outside the folder.
            OSError: The folder cannot be created or written to.
        """
        output, names, written = self.path, self.layout.names, self.path.resolve()
        if written.exists() and not written.is_dir():
            raise DataError(f"--output: {output} is a file. Choose another --output.")
        for folder in (Path(str(folder)) for folder in self.layout.folders):
            if folder.resolve() in (written, *written.parents):
                raise DataError(f"--output: {folder} holds inputs. Choose an --output outside of it.")
        if taken := next((name for name in names if name == SHEET or name.split("/")[0] == GALLERY), None):
            raise DataError(f"--input: {taken} is a name among the results. Rename the input.")
        for place, file in self._results().items():
            if not place.is_relative_to(written):
                raise DataError(f"--output: {file} is a link to {place}, outside the output folder. Remove the link.")
        if existing != "replace":
            self._refuse_foreign([] if existing == "keep" else names)
        create_writable(output)

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Keep other processes from writing results into the folder; raise DataError if another process does."""
        gallery = self.path / GALLERY
        gallery.mkdir(exist_ok=True)
        with output_lock(gallery / ".lock", self.path):
            yield

    def _results(self) -> dict[Path, Path]:
        """Return the files to be written, by their resolved paths; raise DataError if two of them collide."""
        names = self.layout.names
        files = [self.image(name) for name in names]
        files += [self.path / name for name in _REPORTS]
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
        reports = [self.path / name for name in _REPORTS if (self.path / name).exists()]
        if (self.path / SOURCES).is_dir():
            reports = []
        if foreign := foreign + reports:
            files = f"{foreign[0]}" + (f" and {counted(len(foreign) - 1, 'other file')}" if foreign[1:] else "")
            choice = "replace" if reports else "replace or keep"  # only images can be kept
            raise DataError(
                f"--output: {files} would be overwritten, which test.py did not write. Choose another --output, or "
                f"--existing {choice}."
            )

    def record(self, origin: Mapping[str, Any], existing: Existing) -> None:
        """Record the origin of this run's translations, and delete older translations of another origin.

        Otherwise `--existing keep` would take older images for images of this origin, if this run is interrupted.

        Raises:
            DataError: Existing translations are to be kept, and have another origin, or an origin without a record.
        """
        facts = {name: fact for name, fact in origin.items() if name not in NOT_COMPARED}
        record = dict(json.loads(json.dumps(facts))) | {_MIXED: False}  # as it is read back
        sources = self.path / SOURCES
        names = {file.relative_to(sources).as_posix().removesuffix(".png") for file in sources.rglob("*.png")}
        present = {name for name in names if self.image(name).is_file()}
        recorded = self._recorded() if present else record
        if recorded != record:
            is_reversed = (recorded or record).get("direction") != record.get("direction")
            found, replaced = differences(record, recorded), present & set(self.layout.names)
            if existing == "keep" or (existing == "refuse" and is_reversed):
                raise DataError(
                    f"--output: {self.path} holds translations of {found}. Choose another --output, or --existing "
                    "replace."
                )
            record[_MIXED] = present != replaced
            if replaced:
                logger.warning("replacing    %s in %s of %s", counted(len(replaced), "image"), self.path, found)
            for name in replaced:
                self.image(name).unlink()
        with replacing(self.path / RECORD) as temporary:
            temporary.write_text(json.dumps(record, indent=2) + "\n", encoding="utf-8")

    def _recorded(self) -> dict[str, Any] | None:
        """Return the recorded origin; None if there is none that can be read."""
        try:
            record = read_json((self.path / RECORD).read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return None
        return record if isinstance(record, dict) else None


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
