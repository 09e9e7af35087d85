"""A sheet of training samples, both stored and augmented."""

from contextlib import suppress
from pathlib import Path

import torch
from torch import Tensor

from configs import build
from configs.schema import Config
from data.batch import Batch, DataError, Sample
from data.files.image_files import write_png
from data.layout import Layout
from data.loader import SampleKey, TrainingDataset, read_fixed
from inference.contact_sheet import contact_sheet
from utils.pictures import colorize, label_colors, picture, scaled_picture, weights_picture


def write_sheet(config: Config, layout: Layout, n_samples: int, path: Path) -> bool:
    """Write up to `n_samples` samples of a training split to an image. Return False if no sample can be used.

    The sheet shows each stored sample and what the first epoch draws from it. It leaves out samples that cannot be
    used.
    """
    preprocessing, rows = build.build_preprocessing(config), dict[str, dict[str, Tensor]]()
    dataset = TrainingDataset(layout, preprocessing, config.run.seed)
    n_shown = min(n_samples, len(layout))
    for index in (number * len(layout) // n_shown for number in range(n_shown)):
        drawn = dataset[SampleKey(0, index)]
        if isinstance(drawn, Sample):
            with suppress(DataError):
                stored = _images(config, layout, read_fixed(layout, preprocessing, index), "")
                rows[layout.names[index]] = stored | _images(config, layout, drawn, "augmented ")
    if rows:
        write_png(path, contact_sheet(rows, len(layout)))
    return bool(rows)


def _images(config: Config, layout: Layout, sample: Sample, what: str) -> dict[str, Tensor]:
    """Return the images and maps of a sample as (3, H, W) uint8 images, by column of the sheet."""
    shown = {"source": sample.source, "source images": sample.source_images, "target": sample.target}
    if layout.n_classes:
        is_known = layout.n_classes <= 2**16  # check_data allows any number unless one is given
        colors = build.data_facts(config).class_colors if is_known else label_colors(int(sample.source.max()) + 1)
        shown["source"] = colorize(sample.source, colors)
    pictures: dict[str, Tensor] = {}
    for name, image in shown.items():
        if image is not None:
            is_rgb = image.dtype == torch.uint8 and len(image) == 3
            rgb = image if is_rgb else picture(image)
            pictures[what + name] = rgb if name == "target" else scaled_picture(rgb, config.generator.scale)
    weights = build.data_facts(config).conditioning.weights(Batch.of([sample]))
    return pictures if weights is None else pictures | {f"{what}weights": weights_picture(weights[0])}
