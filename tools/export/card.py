"""The model card of an exported file. A card describes the task, the network, the training and the metrics."""

import json
from collections.abc import Mapping
from pathlib import PureWindowsPath
from typing import Any

from configs.build import image_sides
from configs.schema import DataConfig
from data.conditioning import ValueRange
from inference.load import LoadedGenerator
from utils.limits import OF_VOLUME
from utils.machine import versions
from utils.run_figures import last_validation
from utils.safetensors_file import SUFFIX
from utils.text import counted, exact


def model_card(loaded: LoadedGenerator, dtype: str, given: Mapping[str, str | None]) -> dict[str, Any]:
    """Return the model card of a generator as values for JSON. It contains no date and no path.

    dtype: Type of the exported weights.
    given: Texts for title, description and license. None: use the default.
    """
    config, sides = loaded.config, image_sides(loaded.config)
    n_parameters = sum(parameter.numel() for parameter in loaded.generator.parameters())
    card = {
        "title": loaded.name,
        "description": "",
        "license": "",
        **(loaded.card if loaded.file.suffix == SUFFIX else _of_training(loaded)),
        "task": "image-to-image",
        "source": _source(loaded),
        "target": _images(loaded.conditioning.target_channels, loaded.conditioning.target_range),
        **(_volumes(config.data) if config.data.has_volumes else {}),
        "direction": loaded.direction,
        "network": f"{config.generator.name}, {n_parameters:,} parameters, {dtype}",
        "sides": f"multiples of {sides.multiple} pixels, from {sides.minimum}",
        "scale": config.generator.scale,
        "versions": versions(),
        **{name: " ".join(text.split()) for name, text in given.items() if text is not None},
    }
    return card | {"markdown": _markdown(card)}


def _markdown(card: Mapping[str, Any]) -> str:
    """Return the card as a README.md for a model hub, with YAML front matter, the description and a table."""
    head = {"license": card["license"], "pipeline_tag": card["task"], "library_name": "pairgan"}
    lines = ["---", *(f"{name}: {json.dumps(value)}" for name, value in head.items() if value), "---"]
    lines += ["\n\n".join(filter(None, [f"# {card['title']}", card["description"]])), "", "| | |", "|---|---|"]
    for name, fact in card.items():
        text = ", ".join(f"{key} {value}" for key, value in fact.items()) if isinstance(fact, dict) else str(fact)
        cell = text.replace("|", r"\|")
        lines += [f"| {name} | {cell} |"] if fact and name not in ("title", "description", "markdown") else []
    return "\n".join(lines) + "\n"


def _of_training(loaded: LoadedGenerator) -> dict[str, Any]:
    """Return the facts that a run's checkpoint records. Return {} for a weights file of an original project."""
    if loaded.step is None:
        return {}
    config, data = loaded.config, loaded.config.data
    name = PureWindowsPath(data.root).name or data.layout  # the path can contain / or \; synthetic data have no path
    samples = {} if loaded.n_samples is None else {"samples": loaded.n_samples}
    parts: dict[str, Any] = {
        "training": {"method": config.method.name, "step": loaded.step, "weights": loaded.weights},
        "data": {"name": name, **samples},
    }
    measures_average = config.train.ema_decay and loaded.weights == "raw"  # metrics belong to averaged weights
    if not measures_average and (measured := last_validation(loaded.file.parent, loaded.step)):
        figures = {name: float(f"{value:.4g}") for name, value in measured.figures.items()}
        parts["metrics"] = {"split": measured.split, "step": measured.step, **figures}
    return parts


def _source(loaded: LoadedGenerator) -> str:
    conditioning = loaded.conditioning
    n_images = conditioning.source_image_channels if conditioning.n_classes else conditioning.source_channels
    parts = [f"label maps of {conditioning.n_classes} classes"] if conditioning.n_classes else []
    parts += ["instances"] if conditioning.needs_instances else []
    parts += [_images(n_images, conditioning.source_range)] if n_images else []
    return " and ".join(parts)


def _volumes(data: DataConfig) -> dict[str, str]:
    """Return the description of sources and targets for volumes."""
    source, target = (
        ", ".join(f"{exact(low)} to {exact(high)}" for low, high in zip(bounds[::2], bounds[1::2], strict=True))
        for bounds in (data.source_bounds or (), data.target_range or ())
    )
    if data.source_range == OF_VOLUME:
        source = "from percentile 0.1 to 99.9 of the values above the lowest value of each volume"
    volumes, slices = counted(data.source_channels, "volume"), counted(2 * data.neighbours + 1, "slice")
    source = f"{volumes} (D, H, W), {slices} along axis {data.axis} as channels, values {source}"
    return {"source": source, "target": f"volume, values {target}"}


def _images(n_channels: int, values: ValueRange | None) -> str:
    kinds = {1: "grey images", 3: "RGB images"} if values is None else {}
    return kinds.get(n_channels, f"images of {counted(n_channels, 'channel')}, not 8-bit RGB")
