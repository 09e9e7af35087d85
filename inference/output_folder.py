"""The output folder of test.py: paths, checks of existing results, and a record of the settings."""

import errno
import hashlib
import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
from torch import Tensor

from configs.data_facts import DataFacts
from configs.schema import Config, changed_settings
from configs.splits import translated_split
from data.batch import DataError
from data.files.image_files import StoredForm, read_rgb, read_stored, write_png
from data.files.tiff_tags import file_tags, write_tiff
from data.files.volume_header import volume_suffix
from data.folder import File
from data.layout import Layout
from inference.inputs import common_folder
from inference.load import LoadedGenerator
from inference.predictor import Predictor
from inference.reading import NoData
from inference.request import Existing, Request
from models.instance_features import FILE_NAME
from utils.files import locked, replacing, sha256_of_file
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
SPREAD = "_spread"  # ends the name of a file with the standard deviation of several translations
_REPORTS = (f"{SHEET}.png", INDEX, METRICS)
_MIXED = "mixed"  # key of the record: whether the folder also holds images from runs with other settings

_NOT_COMPARED = ("step", "checkpoint", "folders")  # paths change when files move; the checksum covers the step
_NEW_OPTIONS = ("mask", "average_axes", "spread")  # recorded only if they are used, because earlier records lack them
_OPTIONS_NOT_RECORDED = (
    *("device", "compile", "batch_size", "max_pixels", "output", "existing", "window"),  # do not change translations
    *("checkpoint", "direction", "weights", "overrides", "opt_level", "dtype", "tile", "clusters", "style", "size"),
    *("input", "split", "instances", "targets", "feature_maps", "more_checkpoints", *_NEW_OPTIONS),
    # `origin` records the options of the last two lines separately
)
_SECTIONS = ("data.", "generator.", "features.", "style.")  # sections that change translations; exceptions follow
_SETTINGS_WITHOUT_EFFECT = (
    *("data.root", "data.workers", "data.timeout_s", "data.cache"),
    *("data.flip", "data.quarter_turns", "data.rotation_degrees", "data.zoom", "data.elastic", "data.on_bad_sample"),
    *("data.validation_split", "data.weight_folder"),
    *("data.preprocess", "data.load_", "data.crop_"),  # recorded as "resizing"
    "data.synthetic_",  # number and size of samples; the option `--existing keep` compares sizes itself
)


@dataclass(frozen=True)
class ImageStore:
    """Writes and reads translated images.

    form: Storage format of images that are not 8-bit RGB; None for 8-bit RGB.
    suffix: Suffix of the files.
    scale: Height of a translated image divided by the height of its source.
    other_suffixes: Suffixes that files can have instead of `suffix`. If .tif is one of them, a source TIFF with tags,
        such as coordinates, is translated to a TIFF.
    """

    form: StoredForm | None = None
    suffix: str = ".png"
    scale: float = 1.0
    other_suffixes: tuple[str, ...] = ()

    def suffix_of(self, source: File | None) -> str:
        """Return the file suffix of a translation. source: File of the source, or None."""
        return ".tif" if self.other_suffixes and file_tags(source) else self.suffix

    def write(self, path: Path, image: Tensor, source: File | None, no_data: NoData | None = None) -> None:
        """Write a (C, H, W) image, and mark its pixels without data. A TIFF gets the tags of its source.

        Create missing folders. An incomplete file has a temporary name.
        """
        image = no_data.marked(image) if no_data else image
        with replacing(path) as unfinished:
            match path.suffix:
                case ".png":
                    write_png(unfinished, image)
                case ".npy":
                    with unfinished.open("wb") as file:
                        np.save(file, image.numpy())
                case _:
                    write_tiff(unfinished, image, source, self.scale, no_data.value if no_data else None)

    def read(self, path: Path) -> Tensor:
        """Read a translated image. Replace NaN by 0. Raise DataError if the file is damaged or has another format."""
        if self.form is None:
            return read_rgb(path)
        image = read_stored(path, replace(self.form, allows_missing=True))
        return image.nan_to_num_() if image.is_floating_point() else image


def image_store(facts: DataFacts) -> ImageStore:
    """Return the store for translations, with the storage format of the data set's targets."""
    form, files, scale = facts.storage.get("target"), facts.target_files, facts.conditioning.target_scale
    if files is None:
        return ImageStore(scale=scale, other_suffixes=(".tif",))
    if form is None:
        form = StoredForm(3, "data.target_channels", is_8_bit=True)
    return ImageStore(form, "." + files.partition(".")[2], scale=scale)


def default_output(loaded: LoadedGenerator, request: Request) -> Path:
    """Return results/RUN/NAME_stepSTEP. NAME is the name of --input. Without --input, it is the split.

    If the run has generators for two directions, append the direction to NAME. For N checkpoints, append mean_of_N.
    """
    if request.input:
        first, *others = request.input
        is_file = first.is_file() and not others
        stem = Path(first.resolve().name.removesuffix(".gz")).stem  # volumes have names such as p001.nii.gz
        name = stem if is_file else common_folder(request.input).name or "input"
    else:
        name = request.split or translated_split(loaded.config)
    name = name.replace("/", "_")  # a split can be a nested folder, but its results are in one folder
    step = None if loaded.step is None else f"step{loaded.step}"
    mean = f"mean_of_{1 + len(loaded.others)}" if loaded.others else None
    return Path("results") / loaded.name / "_".join(filter(None, [name, loaded.named_direction, step, mean]))


def gallery_image(kind: str, name: str) -> str:
    """Return the path of a sample's image in the gallery, relative to the output folder."""
    return f"{GALLERY}/{kind}/{name}.png"


@dataclass(frozen=True)
class OutputFolder:
    """The folder of translated images, with a contact sheet, a gallery and metrics.

    layout: Samples to translate.
    has_spread: Whether each image has a second file, with the standard deviation of several translations.
    """

    path: Path
    layout: Layout
    store: ImageStore
    has_spread: bool = False

    def source(self, index: int) -> File | None:
        """Return the source file of sample `index`, or None for synthetic samples."""
        return self.layout.provenance(index).files.get("source")

    @cached_property
    def _suffixes(self) -> dict[str, str]:
        return {name: self.store.suffix_of(self.source(index)) for index, name in enumerate(self.layout.names)}

    def image(self, name: str) -> Path:
        """Return the path of a sample's translated image. The sample can be from an earlier run."""
        suffix = self._suffixes.get(name)
        for other in self.store.other_suffixes if suffix is None else ():
            if (file := self.path / f"{name}{other}").exists():
                return file
        return self.path / f"{name}{suffix or self.store.suffix}"

    def spread(self, name: str) -> Path:
        """Return the path of the standard deviation of a sample's translations, float32."""
        suffix = volume_suffix(self.image(name).name) or ".tif"
        return self.path / f"{name}{SPREAD}{suffix}"

    def translations(self, name: str) -> list[Path]:
        """Return the paths of all files of a sample's translation."""
        return [self.image(name), *[self.spread(name)] * self.has_spread]

    def is_written(self, name: str) -> bool:
        """Return whether all files of a sample's translation exist."""
        return all(file.exists() for file in self.translations(name))

    def prepare(self, existing: Existing) -> None:
        """Check that all results can be written, and create the folder.

        Raises:
            DataError: Results would be outside the folder, or would overwrite inputs, each other, or files that test.py
                did not write. The last is allowed if `existing` is "replace".
            OSError: The folder cannot be created or written to.
        """
        output, names, written = self.path, self.layout.names, self.path.resolve()
        if written.exists() and not written.is_dir():
            raise DataError(f"--output: {output} is a file. Choose another --output.")
        for folder in (Path(str(folder)) for folder in self.layout.folders):
            if folder.resolve() in (written, *written.parents):
                raise DataError(f"--output: {folder} holds inputs. Choose an --output outside this folder.")
        reserved = {SHEET, *(f"{name}{SPREAD}" for name in names if self.has_spread)}
        if taken := next((name for name in names if name in reserved or name.split("/")[0] == GALLERY), None):
            raise DataError(f"--input: {taken} has the name of a result file. Rename the input.")
        for place, file in self._results().items():
            if not place.is_relative_to(written):
                raise DataError(f"--output: {file} is a link to {place}, outside the output folder. Remove the link.")
        if existing != "replace":
            self._refuse_foreign()
        create_writable(output)

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Lock the folder for this process. Raise DataError if another process writes to the folder."""
        gallery = self.path / GALLERY
        gallery.mkdir(exist_ok=True)
        with output_lock(gallery / ".lock", self.path):
            yield

    def _results(self) -> dict[Path, Path]:
        """Return the result files by resolved path. Raise DataError if they collide with each other or with inputs."""
        names = self.layout.names
        files = [*chain.from_iterable(map(self.translations, names)), *(self.path / name for name in _REPORTS)]
        files += [self.path / gallery_image(kind, name) for name in names for kind in KINDS]
        results = {file.resolve(): file for file in files}
        if overwritten := results.keys() & {Path(str(file)).resolve() for file in self.layout.files}:
            raise DataError(f"--output: results would overwrite the input {min(overwritten)}. Choose another --output.")
        if taken := set(files) & set(chain.from_iterable(file.parents for file in files)):
            raise DataError(f"--input: {min(taken)} would be both a result and a folder of results. Rename an input.")
        return results

    def _refuse_foreign(self) -> None:
        """Raise DataError if results would overwrite an image or a report that test.py did not write.

        test.py writes the source to the gallery before each image. An image without this source is not from test.py.
        """
        written = {name: (self.path / gallery_image(KINDS[0], name)).exists() for name in self.layout.names}
        foreign = [file for name, is_own in written.items() if not is_own for file in self.translations(name)]
        if self.has_spread and not self._recorded().get("spread"):
            foreign += map(self.spread, self.layout.names)
        foreign = [file for file in dict.fromkeys(foreign) if file.exists()]
        if not (self.path / SOURCES).is_dir():
            foreign += [self.path / name for name in _REPORTS if (self.path / name).exists()]
        if foreign:
            files = f"{foreign[0]}" + (f" and {counted(len(foreign) - 1, 'other file')}" if foreign[1:] else "")
            remedy = "Choose another --output, or --existing replace."
            raise DataError(f"--output: results would overwrite {files}, which test.py did not write. {remedy}")

    def _recorded(self) -> dict[str, Any]:
        """Return the record of an earlier run, or {} if it is missing or damaged."""
        with suppress(OSError, ValueError, TypeError):
            return dict(read_json((self.path / RECORD).read_text(encoding="utf-8")))
        return {}

    def record(self, origin: Mapping[str, Any], existing: Existing) -> None:
        """Record the settings of this run. Delete older translations of the same samples that used other settings.

        If they stayed and this run were interrupted, a later `--existing keep` would keep them.
        Raise DataError instead of deleting if `existing` is "keep", or if it is "refuse" and the direction differs.
        """
        facts = {name: fact for name, fact in origin.items() if name not in _NOT_COMPARED}
        record = dict(json.loads(json.dumps(facts))) | {_MIXED: False}  # JSON types, to compare with `recorded`
        sources = self.path / SOURCES
        names = {file.relative_to(sources).as_posix().removesuffix(".png") for file in sources.rglob("*.png")}
        present = {name for name in names if self.image(name).is_file()}
        recorded = self._recorded() if present else record
        if recorded != record:
            replaced, found, is_reversed = present & set(self.layout.names), "settings that are not recorded", False
            if recorded:
                differing = [
                    name for name in {**record, **recorded} if recorded.get(name, ...) != record.get(name, ...)
                ]
                found = f"other settings ({', '.join(differing)})"
                is_reversed = recorded.get("direction") != record.get("direction")
            if existing == "keep" or (existing == "refuse" and is_reversed):
                remedy = "Choose another --output, or --existing replace."
                raise DataError(f"--output: {self.path} holds translations made with {found}. {remedy}")
            record[_MIXED] = present != replaced
            if replaced:
                logger.warning("replacing    %s in %s, made with %s", counted(len(replaced), "image"), self.path, found)
            for name in replaced:
                self.image(name).unlink()
                if recorded.get("spread"):
                    self.spread(name).unlink(missing_ok=True)
        with replacing(self.path / RECORD) as temporary:
            temporary.write_text(json.dumps(record, indent=2) + "\n", encoding="utf-8")


@contextmanager
def output_lock(file: Path, output: Path) -> Iterator[None]:
    """Hold a lock file, and delete it at the end. Raise DataError if another process holds this lock."""
    refusal = f"--output: another process writes to {output}. Wait for it, or choose another --output."
    with locked(file, DataError(refusal)):
        try:
            yield
        finally:
            with suppress(OSError):  # Windows cannot delete open files
                file.unlink()


def create_writable(folder: Path) -> None:
    """Create a folder. Raise OSError if this fails or the folder is not writable."""
    folder.mkdir(parents=True, exist_ok=True)
    if not os.access(folder, os.W_OK | os.X_OK):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(folder))


def origin(
    loaded: LoadedGenerator, predictor: Predictor, request: Request, split: str | None, folders: list[str]
) -> dict[str, Any]:
    """Return everything that determines the translations, as JSON values by name: checkpoint, options, settings.

    split: Name of the translated split, or None. folders: Folders of the inputs.
    """
    data, precision, tiles = loaded.config.data, predictor.precision, predictor.tiles
    clusters, averaged = request.clusters or loaded.file.with_name(FILE_NAME), (loaded, *loaded.others)
    resizing = f"{data.preprocess} to load {data.load_width}x{data.load_height}, crop {data.crop_width}x"
    return {
        "step": loaded.step,
        "checkpoint": ", ".join(str(each.file) for each in averaged),
        "checkpoint_sha256": ", ".join(each.sha256 or sha256_of_file(each.file) for each in averaged),
        "direction": loaded.named_direction,
        "weights": ", ".join(each.weights for each in averaged),
        "precision": f"{precision.opt_level} {precision.compute_dtype}".replace("torch.", ""),
        "resizing": "none" if request.keeps_sizes or data.preprocess == "none" else f"{resizing}{data.crop_height}",
        "tile": tiles.tile if tiles else None,
        "clusters_sha256": sha256_of_file(clusters) if predictor.clusters else None,
        "style_sha256": sha256_of_file(request.style) if request.style else None,
        "folders": folders,
        "split": split,
        **{name: value for name, value in vars(request).items() if name not in _OPTIONS_NOT_RECORDED},
        "seed": predictor.seed if predictor.takes_seed else None,
        **{name: value if value is True else str(value) for name in _NEW_OPTIONS if (value := getattr(request, name))},
        **settings_of(loaded.config),
    }


def settings_of(config: Config) -> dict[str, object]:
    """Return the settings that change translations and differ from their defaults, by `section.key`.

    A mapping is recorded as the SHA-256 of its JSON, because the order of its keys matters.
    """
    return {
        key: hashlib.sha256(json.dumps(value).encode()).hexdigest() if isinstance(value, dict) else value
        for key, value in changed_settings(config).items()
        if key.startswith(_SECTIONS) and not key.startswith(_SETTINGS_WITHOUT_EFFECT)
    }
