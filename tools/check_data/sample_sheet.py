"""A sheet of training samples: as they are stored, and as an epoch sees them."""

import torch
from torch import Tensor

from configs import build
from configs.schema import Config
from data.batch import Batch, DataError, Sample
from data.layout import Layout
from data.loader import SampleKey, TrainingDataset, read_fixed
from inference.contact_sheet import contact_sheet
from utils.pictures import colorize, label_colors, picture, scaled_picture, weights_picture


def training_sheet(config: Config, layout: Layout, n_samples: int) -> Tensor | None:
    """Return `n_samples` samples from all over a training split on one (3, H, W) uint8 image; None without any.

    Sources and targets stand beside those of the first epoch, of more samples than there are also of later ones, as
    training with this configuration draws them. Samples that cannot be used are left out.
    """
    preprocessing, rows = build.build_preprocessing(config), dict[str, dict[str, Tensor]]()
    dataset = TrainingDataset(layout, preprocessing, config.run.seed)
    for number in range(n_samples):
        epoch = number // len(layout)
        n_in_epoch = min(n_samples - epoch * len(layout), len(layout))
        index = number % len(layout) * len(layout) // n_in_epoch
        drawn = dataset[SampleKey(epoch, index)]
        if isinstance(drawn, Sample):
            try:
                stored = read_fixed(layout, preprocessing, index)
            except DataError:
                continue
            images = _images(config, layout, stored, "") | _images(config, layout, drawn, "augmented ")
            rows[stored.name if epoch == 0 else f"{stored.name}, epoch {epoch + 1}"] = images
    return contact_sheet(rows, max(len(layout), len(rows))) if rows else None


def _images(config: Config, layout: Layout, sample: Sample, what: str) -> dict[str, Tensor]:
    """Return the maps of a sample that are shown as (3, H, W) uint8 images, by the heads of their columns."""
    shown = {"source": sample.source, "source images": sample.source_images, "target": sample.target}
    if layout.n_classes:
        is_known = layout.n_classes <= 2**16  # check_data allows any number where none is given
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
