"""The origin of translations: checkpoint, settings, and every option of the request but the named exceptions."""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any

from configs.schema import Config, changed_settings
from inference.load import LoadedGenerator
from inference.predictor import Predictor
from inference.request import Request
from models.instance_features import FeatureClusters
from utils.files import sha256_of_file

NOT_COMPARED = ("step", "checkpoint", "folders")  # they change when files move, or follow from other facts

# Options that no translation depends on, or that a fact of another name stands for.
_WITHOUT_EFFECT = ("device", "compile", "batch_size", "max_pixels", "path", "existing")
_AS_FACTS = (
    *("checkpoint", "direction", "weights", "overrides", "opt_level", "dtype", "tile", "clusters", "style"),
    *("paths", "split", "instances", "targets", "feature_maps"),
)
_SECTIONS = ("data.", "generator.", "features.", "style.")  # sections whose settings change translations, except:
_SETTINGS_WITHOUT_EFFECT = (
    *("data.root", "data.workers", "data.timeout_s", "data.cache"),
    *("data.flip", "data.augment.", "data.on_bad_sample", "data.validation_split", "data.weight_folder"),
    *("data.preprocess", "data.load_", "data.crop_", "data.test_split"),  # see "resizing", "split"
    "data.synthetic_",  # numbers of samples, and sizes, which an image that is kept must have
)


def origin(
    loaded: LoadedGenerator, predictor: Predictor, request: Request, split: str | None, folders: list[str]
) -> dict[str, Any]:
    """Return the origin of translations by names of facts, options and settings, for JSON.

    split: Name of the translated split, or None. folders: Folders of the inputs.
    """
    data, precision, tiles, style = loaded.config.data, predictor.precision, predictor.tiles, predictor.style
    resizing = f"{data.preprocess} to load {data.load_width}x{data.load_height}, crop {data.crop_width}x"
    is_drawn = predictor.noise or predictor.takes_seed or predictor.clusters
    return {
        "step": loaded.step,
        "checkpoint": str(loaded.file),
        "checkpoint_sha256": loaded.sha256 or sha256_of_file(loaded.file),
        "direction": loaded.named_direction,
        "weights": loaded.weights,
        "precision": f"{precision.opt_level} {precision.compute_dtype}".replace("torch.", ""),
        "resizing": "none" if request.keeps_sizes or data.preprocess == "none" else f"{resizing}{data.crop_height}",
        "tile": tiles.generator.tile if tiles else None,
        "clusters_sha256": _digest(predictor.clusters) if predictor.clusters else None,
        "style_sha256": sha256_of_file(style.file) if style else None,
        "folders": folders,
        "split": split,
        **_options(request),
        "seed": predictor.seed if is_drawn else None,
        **settings_of(loaded.config),
    }


def _options(request: Request) -> dict[str, Any]:
    """Return the options of a request without the exceptions."""
    parts: tuple[Any, ...] = (request.generator, request.input, request.drawing, request.compute, request.output)
    options = {field.name: getattr(part, field.name) for part in parts for field in fields(part)}
    return {
        name: str(value) if isinstance(value, Path) else value
        for name, value in options.items()
        if name not in (*_WITHOUT_EFFECT, *_AS_FACTS)
    }


def settings_of(config: Config) -> dict[str, object]:
    """Return the settings that change translations and differ from their defaults, by `section.key`.

    A mapping, whose order counts, is its SHA-256.
    """
    return {
        key: hashlib.sha256(json.dumps(value).encode()).hexdigest() if isinstance(value, dict) else value
        for key, value in changed_settings(config).items()
        if key.startswith(_SECTIONS) and not key.startswith(_SETTINGS_WITHOUT_EFFECT)
    }


def _digest(clusters: FeatureClusters) -> str:
    """Return the SHA-256 of the centres of the clusters."""
    digest = hashlib.sha256()
    for class_id, centers in sorted(clusters.centers.items()):
        digest.update(f"{class_id} {tuple(centers.shape)}".encode())
        digest.update(centers.cpu().contiguous().numpy().tobytes())
    return digest.hexdigest()


def differences(record: Mapping[str, Any], recorded: Mapping[str, Any] | None) -> str:
    """Return the words for a recorded origin that differs from `record`, with the names of what differs."""
    if not recorded:
        return "an origin that is not recorded"
    names = [name for name in {**record, **recorded} if recorded.get(name, ...) != record.get(name, ...)]
    return f"another origin ({', '.join(names)})"
