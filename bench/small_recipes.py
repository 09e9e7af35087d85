"""The recipes of configs/ at a small size, on the demo's data."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from configs.load import load_config
from configs.schema import Config

PAIRS = (125, 60)  # the demo's, and few
N_TEST = 100
DATA = [
    "data.layout=synthetic_facades",
    "data.root=.",
    "data.test_split=test",
    "data.n_classes=0",
    "data.ignore_id=null",
    "data.instance_edges=true",
    "data.preprocess=none",
    "data.flip=false",
    "data.workers=1",
    "data.synthetic.height=128",
    "data.synthetic.width=128",
    "data.synthetic.val_samples=24",
    f"data.synthetic.test_samples={N_TEST}",
]
LOGS = ["log.every_steps=50", "log.images_every_steps=1000000", "checkpoint.every_steps=1000000", "checkpoint.keep=1"]
# one pair at a time, which batch norm does not suit
BATCH = ["train.batch_size=1", "train.accumulation_steps=1", "generator.norm=instance", "discriminator.norm=instance"]
NO_VGG = ["loss.vgg=0", "loss.l1=20"]  # as in the demo: VGG19's weights would be a download
GLOBAL = ["generator.base_channels=32", "generator.n_downsamplings=2", "generator.n_blocks=4"]
PATCH = ["discriminator.base_channels=32"]
SPADE = ["generator.base_channels=16", "generator.hidden_channels=32", "generator.n_upsamplings=4"]
UNET = ["discriminator.base_channels=16", "discriminator.n_downsamplings=5"]
AVERAGE = ["train.ema_decay=0.98"]  # the recipes' 0.999 is longer than these runs
# learning rates: 2.5 times the recipe's, because the runs are short
PIX2PIXHD_RATES = ["optimizer.learning_rate=5.0e-4"]
# OASIS's own rates, and initial weights with which batches of one do not make its discriminator collapse
OASIS = ["generator.init=kaiming", "discriminator.init=kaiming"]
TTUR = ["optimizer.learning_rate=2.5e-4", "optimizer.discriminator_learning_rate=1.0e-3"]


@dataclass(frozen=True)
class Recipe:
    """A file of configs/, and the settings that make it small."""

    file: str
    settings: Sequence[str]


RECIPES = {
    "pix2pix": Recipe(
        "pix2pix_facades",
        ["generator.base_channels=32", "generator.n_downsamplings=6", *PATCH, *PIX2PIXHD_RATES],
    ),
    "pix2pixHD": Recipe("pix2pixhd_512p", [*GLOBAL, *PATCH, *NO_VGG, *PIX2PIXHD_RATES]),
    "pix2pixHD, nearest": Recipe(
        "pix2pixhd_512p", [*GLOBAL, *PATCH, *NO_VGG, *PIX2PIXHD_RATES, "generator.upsample=nearest"]
    ),
    "pix2pixHD+": Recipe("pix2pixhd_plus", [*GLOBAL, *PATCH, *NO_VGG, *TTUR, *AVERAGE]),
    "small_data": Recipe("small_data", [*GLOBAL, *PATCH, *NO_VGG, *TTUR, *AVERAGE]),
    "SPADE": Recipe("spade_ade20k", [*SPADE, *PATCH, *NO_VGG, *TTUR]),
    "OASIS": Recipe(
        "oasis_cityscapes",
        [*SPADE, "generator.noise_channels=16", *UNET, *OASIS, *AVERAGE],
    ),
    "demo": Recipe("demo", []),
}


def settings_of(name: str, n_pairs: int, seed: int) -> list[str]:
    """Return the settings of a recipe on a number of training pairs that differ from its file's."""
    of_data = [*DATA, f"data.synthetic.train_samples={n_pairs}", f"run.seed={seed}"]
    return [*of_data, *LOGS, *BATCH, *RECIPES[name].settings]


def config_of(name: str, n_pairs: int, seed: int) -> Config:
    """Return the configuration of a recipe on a number of training pairs."""
    return load_config(recipe_file(name), settings_of(name, n_pairs, seed))


def recipe_file(name: str) -> Path:
    """Return the file that a recipe is made of."""
    return Path("configs") / f"{RECIPES[name].file}.yaml"


def epochs_of(name: str, n_pairs: int, n_steps: float) -> list[str]:
    """Return the settings of as many epochs as come nearest to a number of steps, with the recipe's kind of decay."""
    n_epochs = max(2, round(n_steps / n_pairs))
    n_decay = n_epochs // 2 if load_config(recipe_file(name), DATA).train.decay_epochs else 0
    return [f"train.epochs={n_epochs - n_decay}", f"train.decay_epochs={n_decay}"]
