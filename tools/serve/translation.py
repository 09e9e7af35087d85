"""Translations of a run's generator, or of an export; files are read and written as by test.py."""

import argparse
import secrets
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from io import BytesIO
from pathlib import Path
from typing import Any, BinaryIO, Literal

import torch
from torch import Tensor, nn

from configs import build
from configs.image_sides import image_sides
from configs.label_maps import ignored_id, named_classes
from configs.load import config_from_dict
from configs.stored_images import EIGHT_BITS, stored_forms, target_dtype, trained_forms
from data.batch import Batch, Sample
from data.files.size_guard import check_size
from data.map_reader import source_kinds
from inference.image_store import image_store
from inference.load import LoadedGenerator
from inference.padding import fitted
from inference.tiling import Window
from pairgan import ModelError, load
from tools.serve.command_line import parse_with_generator
from tools.serve.generator import open_generator
from utils.cli import ArgumentParser, is_out_of_memory
from utils.errors import ConfigError, UserError

NAME = "source"  # of an image without a name: seeds of features and noise depend on it
_SUFFIXES = {b"\x93NUMPY": ".npy", **dict.fromkeys((b"II*\0", b"MM\0*", b"II+\0", b"MM\0+"), ".tif")}
MEDIA_TYPES = {".png": "image/png", ".tif": "image/tiff"}


@dataclass(frozen=True)
class Upload:
    """A file of a request, as `data.store.File`."""

    name: str
    content: bytes

    @property
    def suffix(self) -> str:
        """The suffix of its format, by its first bytes."""
        return next((suffix for begin, suffix in _SUFFIXES.items() if self.content.startswith(begin)), ".png")

    def open(self, mode: Literal["rb"] = "rb", /) -> BinaryIO:
        """Open it for reading."""
        return BytesIO(self.content)

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True)
class Job:
    """A sample to translate.

    sample: as the network takes it. window: of its translation in the network's. file: of the source.
    """

    sample: Sample
    window: Window
    seed: int
    file: Upload

    @property
    def kind(self) -> Hashable:
        """The property that jobs translated together share."""
        return self.sample.source.shape, self.sample.source.dtype, self.seed


@dataclass(frozen=True)
class Translator:
    """Reads the files of requests, translates those of one kind together, and writes translations as files.

    loaded: the generator's settings. takes_seed: whether translations depend on a seed. most_together: jobs.
    compute: translates jobs of one kind. folder: of temporary files.
    """

    loaded: LoadedGenerator
    takes_seed: bool
    most_together: int
    compute: Callable[[Sequence[Job]], Sequence[Tensor]]
    folder: Path

    @property
    def kinds(self) -> list[str]:
        """The files that a request has, as a form names them."""
        config, conditioning = self.loaded.config, self.loaded.conditioning
        beside = {"instances": build.reads_instances(config), "features": conditioning.features == "precomputed"}
        sources = source_kinds(len(config.data.source_folder) if config.data.is_stacked else 1)
        return [*sources, *(kind for kind, is_read in beside.items() if is_read)]

    def read(self, files: Mapping[str, Upload], name: str, seed: int) -> Job:
        """Return the job of a request's files.

        Raises:
            DataError: a file cannot be used.
            TooLargeError: an image, or what it becomes by padding, which is much more of a narrow one.
        """
        config, conditioning = self.loaded.config, self.loaded.conditioning
        makes_instances = conditioning.needs_instances and config.data.makes_instances
        reader = build.build_map_reader(config, trained_forms(config.data), needs_instances=makes_instances)
        sample, sides = reader.read(name, {kind: files[kind] for kind in self.kinds}), image_sides(config)
        padded_sides = (-(-side // sides.multiple) * sides.multiple for side in sample.source.shape[-2:])
        height, width = (max(side, sides.minimum) for side in padded_sides)
        check_size("source, padded as the generator needs it", height, width)
        is_ids = conditioning.n_classes > 0
        padded = fitted(sample, build.build_preprocessing(config), keeps_size=True, source_is_ids=is_ids)
        return Job(padded.padded, padded.window, seed, files["source"])

    @property
    def media_type(self) -> str:
        """The media type of translations."""
        return MEDIA_TYPES.get(image_store(self.loaded.config).suffix, "application/octet-stream")

    def written(self, job: Job, image: Tensor) -> bytes:
        """Return a translation as the bytes of a file."""
        store = image_store(self.loaded.config)
        path = self.folder / f"{secrets.token_hex(8)}{store.suffix}"
        try:
            store.write(path, job.window.cut(image), job.file)
            return path.read_bytes()
        finally:
            path.unlink(missing_ok=True)

    def describe(self) -> dict[str, Any]:
        """Return what a client needs to know of the generator, for JSON."""
        config, conditioning = self.loaded.config, self.loaded.conditioning
        data, sides = config.data, image_sides(config)
        table, forms = named_classes(data), stored_forms(data)
        names = table.names if table else tuple(map(str, range(conditioning.n_classes)))
        holds = dict.fromkeys(self.kinds, "values" if data.source_images in forms else "8-bit RGB")
        holds |= {"instances": "ids", "features": "8-bit RGB"}
        if conditioning.n_classes:
            holds["source"] = "class colours" if data.colors else "class ids"
        has_images, label_channels = not conditioning.n_classes or data.is_stacked, 3 if data.colors else 1
        return {
            "name": self.loaded.name,
            "step": self.loaded.step,
            "direction": self.loaded.direction,
            "card": self.loaded.card,
            "inputs": {kind: holds[kind] for kind in self.kinds},
            "source_channels": data.source_channels if has_images else label_channels,
            "source_range": (data.source_range or EIGHT_BITS) if has_images else None,
            "classes": dict(enumerate(names[: conditioning.n_classes])),
            "ignore_id": ignored_id(data),
            "size_multiple": sides.multiple,
            "min_size": sides.minimum,
            "scale": config.generator.scale,
            "takes_seed": self.takes_seed,
            "output": self.media_type,
            "output_channels": data.target_channels if "target" in forms else 3,
            "output_range": data.target_range or EIGHT_BITS,
            "output_dtype": str(target_dtype(data)).removeprefix("torch."),
        }


def open_translator(arguments: argparse.Namespace, folder: Path) -> Translator:
    """Return the translator of --checkpoint, which may be an export; folder: of temporary files.

    Raises:
        UserError: the file cannot be used.
    """
    file: Path | None = arguments.checkpoint
    if file is not None and file.suffix == ".onnx":
        return _of_export(file, arguments, folder)
    if len(arguments.styles) > 1:
        raise ConfigError("--style: given several times; the service translates in one style. Leave the others out.")
    opened = open_generator(arguments, arguments.direction, folder, gets_feature_maps=True)
    predictor = opened.predictor

    def compute(jobs: Sequence[Job]) -> Sequence[Tensor]:
        return list(replace(predictor, seed=jobs[0].seed).translate(Batch.of([job.sample for job in jobs])))

    together = 1 if predictor.tiles or arguments.noise else arguments.batch_size
    return Translator(opened.loaded, opened.takes_seed, together, compute, folder)


_AS_TYPED = {"styles": "--style", "overrides": "settings"}  # the options whose names differ from their attributes


def _of_export(file: Path, arguments: argparse.Namespace, folder: Path) -> Translator:
    defaults = vars(parse_with_generator(ArgumentParser(), checkpoint="", argv=()))
    changed = {name for name, value in defaults.items() if getattr(arguments, name) != value}
    if unused := sorted(changed - {"checkpoint", "device", "seed"}):
        given = ", ".join(_AS_TYPED.get(name, f"--{name.replace('_', '-')}") for name in unused)
        raise ConfigError(f"{file}: an export is computed as it was written, without {given}. Name its run instead.")
    try:
        model = load(file, arguments.device)
    except ModelError as error:
        raise ConfigError(str(error)) from error
    config = config_from_dict(dict(model.settings), str(file))
    loaded = LoadedGenerator(file, config, model.step, nn.Identity(), model.direction, card=model.card)

    def compute(jobs: Sequence[Job]) -> Sequence[Tensor]:
        batch = Batch.of([job.sample for job in jobs])
        maps = {kind: getattr(batch, kind).numpy().astype(dtype) for kind, (dtype, _) in model.inputs.items()}
        try:
            return list(torch.from_numpy(model.run(maps)))  # `batch` of it would read and pad them once more
        except Exception as error:  # onnxruntime's have no base of their own
            if is_out_of_memory(error):
                raise
            height, width = batch.source.shape[-2:]
            reason = str(error).partition("\n")[0].rstrip(". ")
            raise UserError(f"{width}x{height}: {reason}. Send a smaller image.") from error

    translator = Translator(loaded, False, arguments.batch_size, compute, folder)
    if others := model.inputs.keys() - {*translator.kinds, "instances", "source_images"}:
        raise ConfigError(f"{file}: takes {', '.join(others)}, which no file of a request holds. Name its run instead.")
    return translator
