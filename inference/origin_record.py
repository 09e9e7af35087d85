"""The origin of the translations in a folder, recorded there before the first one, so that no two are mixed."""

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from configs.load import settings_by_key
from configs.schema import Config
from data.batch import DataError
from data.layout import Layout
from inference.feature_sampler import FeatureSampler
from inference.joined_pictures import JoinedPictures
from inference.load import LoadedGenerator
from inference.output_folder import GALLERY, SOURCES
from inference.predictor import Predictor
from inference.request import Existing
from utils.atomic_file import replacing
from utils.digest import sha256_of_file

RECORD = f"{GALLERY}/origin.json"
PLACES = ("step", "checkpoint", "folders")  # which change when files move, or follow from the rest
_MIXED = "mixed"  # whether the folder also holds translations of other origins, of other images
_SECTIONS = ("data.", "generator.", "features.", "style.")  # whose settings change translations, except for:
_WITHOUT_EFFECT = (
    *("data.root", "data.workers", "data.prefetch", "data.timeout_s", "data.cache"),
    *("data.flip", "data.augment.", "data.on_bad_sample", "data.validation_split", "data.weight_folder"),
    *("data.preprocess", "data.load_", "data.crop_", "data.test_split"),  # see "resizing", "split"
    "data.synthetic.",  # numbers of samples, and sizes, which an image that is kept must have
)


def origin_of(
    loaded: LoadedGenerator, predictor: Predictor, layout: Layout, *, split: str | None, keeps_sizes: bool
) -> dict[str, Any]:
    """Return the description of the generator, its input and its settings for metrics.json.

    split: of the data set, which `layout` is; None where that is another input.
    """
    return generator_origin(loaded, predictor, keeps_sizes=keeps_sizes) | {
        "folders": [str(folder) for folder in layout.folders],
        "split": split,
        "side": layout.side if isinstance(layout, JoinedPictures) else None,
    }


def generator_origin(loaded: LoadedGenerator, predictor: Predictor, *, keeps_sizes: bool) -> dict[str, Any]:
    """Return the description of the generator and its settings, whatever its input."""
    data, precision, sampler = loaded.config.data, predictor.precision, predictor.feature_sampler
    sizes = f"load {data.load_width}x{data.load_height}, crop {data.crop_width}x{data.crop_height}"
    resizing = (
        f"data.preprocess={data.preprocess} ({sizes}), bicubic with antialiasing, label maps by nearest neighbour"
    )
    return {
        "step": loaded.step,
        "checkpoint": str(loaded.file),
        "checkpoint_sha256": loaded.sha256 or sha256_of_file(loaded.file),
        "weights": loaded.weights,
        "precision": f"{precision.opt_level} {precision.compute_dtype}".replace("torch.", ""),
        "resizing": "none" if keeps_sizes or data.preprocess == "none" else resizing,
        "tta": "flip" if predictor.flips else None,
        "noise_seed": predictor.noise_seed,
        "tile": predictor.tile,
        "overlap": predictor.tiles.generator.overlap if predictor.tiles else None,
        "feature_seed": sampler.seed if sampler else None,
        "clusters_sha256": _digest(sampler) if sampler else None,
        **({"noise_channels_seed": predictor.seed} if predictor.has_noise_channels else {}),
        **({"style_seed": predictor.seed} if predictor.draws_style else {}),
        **({"style_sha256": sha256_of_file(predictor.style.file)} if predictor.style else {}),
        **settings_of(loaded.config),
    }


def settings_of(config: Config) -> dict[str, object]:
    """Return the settings that change translations, by `section.key`, as far as they differ from their defaults.

    Of mappings, whose order counts, the SHA-256.
    """
    defaults = settings_by_key(Config())
    given = {key: value for key, value in settings_by_key(config).items() if value != defaults[key]}
    return {
        key: hashlib.sha256(json.dumps(value).encode()).hexdigest() if isinstance(value, dict) else value
        for key, value in given.items()
        if key.startswith(_SECTIONS) and not key.startswith(_WITHOUT_EFFECT)
    }


def _digest(sampler: FeatureSampler) -> str:
    """Return the SHA-256 of the centres of the clusters."""
    digest = hashlib.sha256()
    for class_id, centers in sorted(sampler.clusters.centers.items()):
        digest.update(f"{class_id} {tuple(centers.shape)}".encode())
        digest.update(centers.cpu().contiguous().numpy().tobytes())
    return digest.hexdigest()


def record_origin(
    origin: Mapping[str, Any], output: Path, layout: Layout, existing: Existing, suffix: str = ".png"
) -> None:
    """Write the origin of the translations that follow; existing ones of these images and another origin are deleted.

    Otherwise `--existing keep`, after a translation that was interrupted, would take them for ones of this origin.

    suffix: of the translated images.

    Raises:
        DataError: existing translations are to be kept, and have another origin or none that is recorded.
    """
    record = json.loads(json.dumps({name: value for name, value in origin.items() if name not in PLACES}))
    record[_MIXED] = False
    present = _translated(output, suffix)
    recorded = read_record(output / RECORD) if present else record
    if recorded != record:
        if existing == "keep":
            found = recorded or {}
            names = [name for name in record | found if found and found.get(name, ...) != record.get(name, ...)]
            what = f"another origin ({', '.join(names)})" if names else "an origin that is not recorded"
            raise DataError(
                f"--output: {output} holds translations of {what}. Choose another --output, or --existing replace."
            )
        record[_MIXED] = bool(present - set(layout.names))
        for name in present & set(layout.names):
            (output / f"{name}{suffix}").unlink()
    write_record(record, output / RECORD)


def _translated(output: Path, suffix: str) -> set[str]:
    """Return the names of the translations in a folder, known by their sources in the gallery."""
    sources = output / SOURCES
    names = {file.relative_to(sources).as_posix().removesuffix(".png") for file in sources.rglob("*.png")}
    return {name for name in names if (output / f"{name}{suffix}").is_file()}


def write_record(record: Mapping[str, Any], file: Path) -> None:
    """Write an origin as JSON, atomically."""
    with replacing(file) as temporary:
        temporary.write_text(json.dumps(record, indent=2) + "\n", encoding="utf-8")


def read_record(file: Path) -> dict[str, Any] | None:
    """Return the recorded origin; None where there is none that can be read."""
    try:
        record = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return record if isinstance(record, dict) else None
