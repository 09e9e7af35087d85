"""Translations of a run's generator, or of an export."""

import argparse
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from configs.build import image_sides
from configs.load import config_from_dict
from data.batch import Batch, Sample
from inference.load import LoadedGenerator
from pairgan import ModelError, load
from tools.serve.command_line import parse_with_generator
from tools.serve.generator import open_generator
from tools.serve.request_files import RequestFiles
from utils.cli import ArgumentParser, is_out_of_memory
from utils.errors import ConfigError, UserError


@dataclass(frozen=True)
class Job:
    """A sample, padded for the network, and the translator that has read it."""

    sample: Sample
    seed: int
    translator: "Translator"

    @property
    def kind(self) -> Hashable:
        """The property that jobs translated together share."""
        return id(self.translator), self.sample.source.shape, self.sample.source.dtype, self.seed


@dataclass(frozen=True)
class Translator:
    """Translates samples of one kind together.

    loaded: The generator with its settings.
    takes_seed: Whether translations depend on a seed.
    most_together: Most jobs of a batch.
    compute: Translates jobs of one kind.
    files: Reads and writes the files of requests.
    """

    loaded: LoadedGenerator
    takes_seed: bool
    most_together: int
    compute: Callable[[Sequence[Job]], Sequence[Tensor]]
    files: RequestFiles

    def describe(self) -> dict[str, Any]:
        """Return the facts of the generator that a client needs, for JSON."""
        config, facts = self.loaded.config, self.loaded.data_facts
        data, sides, files = config.data, image_sides(config), self.files
        names = facts.classes.names if facts.classes else tuple(map(str, range(facts.n_classes)))
        holds = dict.fromkeys(files.kinds, "values" if facts.source_images in facts.storage else "8-bit RGB")
        holds |= {"instances": "ids", "features": "8-bit RGB"}
        if facts.n_classes:
            holds["source"] = "class colours" if facts.file_colors else "class ids"
        label_channels = 3 if facts.file_colors else 1
        return {
            "name": self.loaded.name,
            "step": self.loaded.step,
            "direction": self.loaded.direction,
            "card": self.loaded.card,
            "inputs": {kind: holds[kind] for kind in files.kinds},
            "source_channels": data.source_channels if facts.has_source_images else label_channels,
            "source_range": facts.bounds(facts.source_images) if facts.has_source_images else None,
            "classes": dict(enumerate(names[: facts.n_classes])),
            "ignore_id": facts.ignored_id,
            "size_multiple": sides.multiple,
            "min_size": sides.minimum,
            "scale": config.generator.scale,
            "takes_seed": self.takes_seed,
            "output": files.media_type,
            "output_channels": data.target_channels if "target" in facts.storage else 3,
            "output_range": facts.bounds("target"),
            "output_dtype": str(facts.target_dtype).removeprefix("torch."),
        }


def open_translator(arguments: argparse.Namespace, folder: Path) -> Translator:
    """Return the translator of --checkpoint, which may be an export. `folder` holds temporary files.

    Raises:
        UserError: The file cannot be used.
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
    return Translator(
        opened.loaded,
        predictor.takes_seed,
        together,
        compute,
        RequestFiles(opened.loaded.config, opened.loaded.data_facts, folder),
    )


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

    files = RequestFiles(loaded.config, loaded.data_facts, folder)
    if others := model.inputs.keys() - {*files.kinds, "instances", "source_images"}:
        raise ConfigError(f"{file}: takes {', '.join(others)}, which no file of a request holds. Name its run instead.")
    return Translator(loaded, False, arguments.batch_size, compute, files)
