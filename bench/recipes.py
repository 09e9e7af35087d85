"""Every recipe at a small size on the demo's data, for equal time: which one to take for how many pairs.

python -m bench.recipes [--seconds N] [--seeds N] [--recipe NAME …] [--jobs N] [--pictures FILE]

A recipe's steps are as many as fit the time at its own speed, which is measured in turns with the others before
anything is trained. Its learning rates fall as in the recipe, over half of the epochs.

A small segmentation network, trained on the real photos, says whether a translation shows the classes that it was made
of. The mean intersection over union of its maps with the sources is how the field scores semantic synthesis (Wang et
al. 2018, section 4.1), there with networks trained on Cityscapes.
"""

import argparse
import itertools
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.optim.lr_scheduler import OneCycleLR
from torchmetrics.functional.classification import multiclass_confusion_matrix

from bench.measure import Work, median, time_processes, write_report
from configs import build
from configs.load import load_config
from configs.schema import Config
from data import LAYOUTS
from data.batch import Batch, Sample
from data.conditioning import images_to_float
from data.files.image_files import read_rgb, write_jpeg
from data.layout import Layout
from metrics.segmentation import label_scores
from models.segmentation_discriminator import SegmentationUnet
from training.methods import METHODS
from utils.device import choose_device
from utils.distributed import World
from utils.pictures import picture_table

PAIRS = (125, 60)  # the demo's, and few
SIDE = 128
DATA = ["data.layout=synthetic_facades", "data.root=.", "data.test_split=test", "data.n_classes=0", "data.workers=1"]
DATA += ["data.ignore_id=null", "data.instance_edges=true", "data.preprocess=none", "data.flip=false"]
DATA += [f"data.synthetic.height={SIDE}", f"data.synthetic.width={SIDE}", "data.synthetic.val_samples=24"]
DATA += ["data.synthetic.test_samples=100"]
LOGS = ["log.every_steps=50", "log.images_every_steps=1000000", "checkpoint.every_steps=1000000", "checkpoint.keep=1"]
# one pair at a time, which batch norm does not suit
BATCH = ["train.batch_size=1", "train.accumulation_steps=1", "generator.norm=instance", "discriminator.norm=instance"]
NO_VGG = ["loss.vgg=0", "loss.l1=20"]  # as in the demo: VGG19's weights would be a download
GLOBAL = ["generator.base_channels=32", "generator.n_downsamplings=2", "generator.n_blocks=4"]
PATCH = ["discriminator.base_channels=32"]
SPADE = ["generator.base_channels=16", "generator.hidden_channels=32", "generator.n_upsamplings=4"]
SMALL_UNET = ["generator.base_channels=32", "generator.n_downsamplings=6"]
UNET = ["discriminator.base_channels=16", "discriminator.n_downsamplings=5"]
AVERAGE = ["train.ema_decay=0.98"]  # the recipes' 0.999 is longer than these runs
# learning rates: 2.5 times the recipe's, because the runs are short
PIX2PIXHD_RATES = ["optimizer.learning_rate=5.0e-4"]
# OASIS's own rates, and initial weights with which batches of one do not make its discriminator collapse
OASIS = ["init.distribution=kaiming"]
TTUR = ["optimizer.learning_rate=2.5e-4", "optimizer.discriminator_learning_rate=1.0e-3"]
N_SHOWN = 3
# the segmentation network, and the seed of the house fronts that it is trained on, not those of a run
N_SEGMENTATION_STEPS, SEGMENTATION_BATCH, SEGMENTATION_WIDTHS, SEGMENTATION_SEED = 600, 8, [3, 32, 32, 64, 64], 1000
FIGURES = {"L1": "l1", "SSIM": "ssim", "MS-SSIM": "ms_ssim", "sharpness": "sharpness"}
PIX2PIXHD = [*GLOBAL, *PATCH, *NO_VGG]
# by name: a file of configs/, and the settings that make it small
RECIPES: dict[str, tuple[str, list[str]]] = {
    "pix2pix": ("pix2pix_facades", [*SMALL_UNET, *PATCH, *PIX2PIXHD_RATES]),
    "pix2pixHD": ("pix2pixhd_512p", [*PIX2PIXHD, *PIX2PIXHD_RATES]),
    "pix2pixHD, nearest": ("pix2pixhd_512p", [*PIX2PIXHD, *PIX2PIXHD_RATES, "generator.upsample=nearest"]),
    "pix2pixHD+": ("pix2pixhd_plus", [*PIX2PIXHD, *TTUR, *AVERAGE]),
    "small_data": ("small_data", [*PIX2PIXHD, *TTUR, *AVERAGE]),
    "SPADE": ("spade_ade20k", [*SPADE, *PATCH, *NO_VGG, *TTUR]),
    "OASIS": ("oasis_cityscapes", [*SPADE, "generator.noise_channels=16", *UNET, *OASIS, *AVERAGE]),
    "demo": ("demo", []),
}
TRAININGS = RECIPES | {f"demo, O{n}": ("demo", [f"amp.opt_level=O{n}"]) for n in range(4)}


def settings_of(name: str, n_pairs: int, seed: int) -> list[str]:
    """Return the settings of a recipe on a number of training pairs that differ from its file's."""
    of_data = [*DATA, f"data.synthetic.train_samples={n_pairs}", f"run.seed={seed}"]
    return [*of_data, *LOGS, *BATCH, *TRAININGS[name][1]]


def config_of(name: str, n_pairs: int, seed: int) -> Config:
    """Return the configuration of a recipe on a number of training pairs."""
    return load_config(recipe_file(name), settings_of(name, n_pairs, seed))


def recipe_file(name: str) -> Path:
    """Return the file that a recipe is made of."""
    return Path("configs") / f"{TRAININGS[name][0]}.yaml"


def epochs_of(name: str, n_pairs: int, n_steps: float) -> list[str]:
    """Return the settings of as many epochs as come nearest to a number of steps, with the recipe's kind of decay."""
    n_epochs = max(2, round(n_steps / n_pairs))
    n_decay = n_epochs // 2 if load_config(recipe_file(name), DATA).train.decay_epochs else 0
    return [f"train.epochs={n_epochs - n_decay}", f"train.decay_epochs={n_decay}"]


def make_step(name: str, device: torch.device) -> Work:
    """Return a training step of a recipe."""
    config = config_of(name, PAIRS[0], seed=0)
    build.prepare_device(config, device)
    step = METHODS[config.method.name](config, World(0, 1, device)).step
    batch = Batch.of([build.build_layout(config, "train", needs_targets=True).read(0)]).to(device)
    return lambda: step([[batch]])


def measure_steps(names: Sequence[str], device: torch.device, root: Path) -> dict[str, float]:
    """Return the seconds of a training step of each recipe; a measurement that is continued reads them from `root`."""
    kept = root / "step_seconds.json"
    if kept.is_file():
        return dict(json.loads(kept.read_text()))
    timed = time_processes({name: partial(make_step, name, device) for name in names}, device, repeats=9)
    seconds = {name: median(of_name.seconds) for name, of_name in timed.items()}
    root.mkdir(parents=True, exist_ok=True)
    kept.write_text(json.dumps(seconds))
    return seconds


@dataclass(frozen=True)
class Run:
    """The training of a recipe with a seed, in a folder of its own under `root`."""

    recipe: str
    n_pairs: int
    seed: int
    root: Path

    @property
    def name(self) -> str:
        """The name of the run and of its folder."""
        return f"{self.recipe.replace(' ', '_')}-{self.n_pairs}-{self.seed}"

    @property
    def output(self) -> Path:
        """The folder of its translations."""
        return self.root / f"{self.name}-translated"

    def make(self, n_steps: float, n_threads: int) -> None:
        """Train, and translate the test split, unless an earlier call has done so."""
        if (self.output / "metrics.json").is_file():
            return
        settings = settings_of(self.recipe, self.n_pairs, self.seed)
        settings += [*epochs_of(self.recipe, self.n_pairs, n_steps), f"run.root={self.root}", f"run.name={self.name}"]
        environment = os.environ | {"OMP_NUM_THREADS": str(n_threads)}
        for command in (
            ["train.py", "--config", str(recipe_file(self.recipe)), *settings],
            ["test.py", "--checkpoint", str(self.root / self.name), "--output", str(self.output)],
        ):
            subprocess.run([sys.executable, *command], check=True, capture_output=True, env=environment)
        print(f"{self.name}: {self.figures()}", flush=True)

    def image(self, name: str) -> Tensor:
        """Return the (3, H, W) uint8 translation of a test sample."""
        return read_rgb(self.output / f"{name}.png")

    def figures(self) -> dict[str, float]:
        """Return L1, SSIM, MS-SSIM and sharpness of the translations, and how far the discriminator overfits.

        Overfitting is (real - validation) / (real - fake) of its mean logits at the end, as in `Overfitting`.
        """
        mean = json.loads((self.output / "metrics.json").read_text())["mean"]
        logged = [json.loads(line) for line in (self.root / self.name / "metrics.jsonl").read_text().splitlines()]
        found = {key: value for line in logged for key, value in line.items()}
        real, fake, validation = (found[f"logits/D/{name}"] for name in ("real", "fake", "validation"))
        gap = (real - validation) / (real - fake) if real > fake else 0.0
        return {title: mean[key] for title, key in FIGURES.items()} | {"gap of D": gap}


def samples_of(seed: int, n: int | None = None) -> list[Sample]:
    """Return the test samples of a seed, which draws its own house fronts; the first n, or all."""
    layout = build.build_layout(config_of("demo", PAIRS[0], seed), "test", needs_targets=True)
    return [layout.read(index) for index in range(len(layout) if n is None else n)]


def segmentation_network(layout: Layout, n_classes: int) -> nn.Module:
    """Return a network that maps (N, 3, H, W) images in [-1, 1] to logits of the classes.

    It is trained on the real pairs of a layout, whose images have one size.
    """
    pairs = [layout.read(index) for index in range(len(layout))]
    labels = torch.cat([pair.source for pair in pairs]).long()
    photos = torch.stack([pair.target for pair in pairs if pair.target is not None])
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        network = SegmentationUnet(SEGMENTATION_WIDTHS, SEGMENTATION_WIDTHS[1], n_classes)
        optimizer = torch.optim.Adam(network.parameters())
        schedule = OneCycleLR(optimizer, max_lr=2e-3, total_steps=N_SEGMENTATION_STEPS)
        for _ in range(N_SEGMENTATION_STEPS):
            chosen = torch.randint(len(pairs), (SEGMENTATION_BATCH,))
            loss = F.cross_entropy(network(images_to_float(photos[chosen])), labels[chosen])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            schedule.step()
    return network.eval()


@torch.inference_mode()
def mean_iou(network: nn.Module, names: tuple[str, ...], images: Iterable[tuple[Tensor | None, Tensor]]) -> float:
    """Return the mean IoU, 0 to 1, of (3, H, W) uint8 images with their (1, H, W) ids of the named classes."""
    matrix = torch.zeros(len(names), len(names), dtype=torch.int64)
    for image, labels in images:
        assert image is not None
        found = network(images_to_float(image.unsqueeze(0))).argmax(dim=1)
        matrix += multiclass_confusion_matrix(found, labels.long(), num_classes=len(names))
    scores = label_scores(matrix, names)
    assert scores is not None
    return scores.mean_iou


def rows_of(
    runs: Sequence[Run],
    iou_of: Callable[[Iterable[tuple[Tensor | None, Tensor]]], float],
    step_seconds: Mapping[str, float],
) -> list[dict[str, Any]]:
    """Return a row for each recipe and number of pairs, with the figures of its seeds in lists."""
    samples = {seed: samples_of(seed) for seed in dict.fromkeys(run.seed for run in runs)}

    def row(recipe: str, n_pairs: int | None, figures: list[dict[str, float]]) -> dict[str, Any]:
        titles = (*FIGURES, "mean IoU", "gap of D")
        columns = {title: [seed[title] for seed in figures if title in seed] for title in titles}
        return {"recipe": recipe, "pairs": n_pairs, "s/step": step_seconds.get(recipe), **columns}

    real = [iou_of([(one.target, one.source) for one in of_seed]) for of_seed in samples.values()]
    rows = [row("real photos", None, [{"sharpness": 1.0, "mean IoU": iou} for iou in real])]
    for recipe, n_pairs in dict.fromkeys((run.recipe, run.n_pairs) for run in runs):
        seeds = [run for run in runs if (run.recipe, run.n_pairs) == (recipe, n_pairs)]
        ious = [iou_of([(run.image(one.name), one.source) for one in samples[run.seed]]) for run in seeds]
        rows.append(
            row(recipe, n_pairs, [run.figures() | {"mean IoU": iou} for run, iou in zip(seeds, ious, strict=True)])
        )
    return rows


def write_pictures(runs: Sequence[Run], path: Path) -> None:
    """Write a grid of the first seed: a column of targets, then one for each recipe; the rows by numbers of pairs."""
    rows = [
        [sample.target, *(run.image(sample.name) for run in runs if (run.n_pairs, run.seed) == (n_pairs, 0))]
        for n_pairs in PAIRS
        for sample in samples_of(0, N_SHOWN)
    ]
    write_jpeg(path, picture_table([[image for image in row if image is not None] for row in rows]))


def main() -> None:
    """Measure according to the command line, and write the report."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=60, help="time of each training on this machine, default 60")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--recipe", nargs="*", choices=TRAININGS, default=list(RECIPES), metavar="NAME")
    parser.add_argument("--jobs", type=int, default=1, help="trainings at a time, which share the cores")
    parser.add_argument("--root", type=Path, help="folder for the runs, where an interrupted measurement is continued")
    parser.add_argument("--pictures", type=Path, help="JPEG of translations of each recipe")
    arguments = parser.parse_args()
    device = choose_device("auto")
    with tempfile.TemporaryDirectory() as temporary:
        root = arguments.root or Path(temporary)
        step_seconds = measure_steps(arguments.recipe, device, root)
        cases = itertools.product(PAIRS, range(arguments.seeds), arguments.recipe)
        runs = [Run(name, n_pairs, seed, root) for n_pairs, seed, name in cases]
        n_threads = max(1, torch.get_num_threads() // arguments.jobs)
        with ThreadPoolExecutor(arguments.jobs) as pool:
            list(pool.map(lambda run: run.make(arguments.seconds / step_seconds[run.recipe], n_threads), runs))
        config = config_of("demo", PAIRS[0], SEGMENTATION_SEED)
        classes = LAYOUTS[config.data.layout].own_classes
        assert classes is not None
        layout = build.build_layout(config, "train", needs_targets=True)
        iou_of = partial(mean_iou, segmentation_network(layout, len(classes.names)), classes.names)
        write_report("recipes", device, rows_of(runs, iou_of, step_seconds))
        if arguments.pictures:
            write_pictures(runs, arguments.pictures)


if __name__ == "__main__":
    main()
