"""Recipes on the same pairs, over the same number of steps: which one to take.

python -m bench.recipes [--data FOLDER] [--steps N] [--seeds N] [--recipe "NAME section.key=value …" …]

FOLDER has train_A, train_B, test_A and test_B; without one, the demo's house fronts are drawn. A recipe is the name of
a file of configs and settings that differ from it, such as "own_pairs_small loss.l1=60"; --settings are of all.
"""

import argparse
import json
import os
import shlex
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from statistics import mean, median

import torch
from torch import Tensor

from bench.measure import write_report
from configs.load import load_config
from configs.schema import Config
from configs.splits import open_split
from data.files.image_files import read_rgb, write_jpeg
from utils.device import choose_device
from utils.pictures import picture_table

DRAWN = ["data.layout=synthetic_facades", "data.synthetic.train_samples=125", "data.synthetic.test_samples=100"]
LOGS = ["log.every_steps=50", "log.images_every_steps=1000000", "checkpoint.every_steps=1000000", "checkpoint.keep=1"]
RECIPES = ["own_pairs_small", "own_pairs_small generator.skips=half discriminator.n_layers=3 data.augment.scale=[]"]
FIGURES = {"L1": "l1", "PSNR": "psnr", "SSIM": "ssim", "MS-SSIM": "ms_ssim", "sharpness": "sharpness"}
N_SHOWN = 6


@dataclass(frozen=True)
class Run:
    """The training of a recipe with a seed, in a folder of its own under `root`.

    settings: those of all recipes: of the data, and others from the command line.
    """

    recipe: str
    seed: int
    settings: tuple[str, ...]
    root: Path

    @property
    def name(self) -> str:
        """The name of the run and of its folder."""
        return "".join(
            letter if letter.isalnum() or letter in "._=" else "-" for letter in f"{self.recipe}-{self.seed}"
        )

    @property
    def output(self) -> Path:
        """The folder of its translations."""
        return self.root / f"{self.name}-translated"

    @property
    def arguments(self) -> list[str]:
        """The recipe's file and settings, without the epochs."""
        name, *own = shlex.split(self.recipe)
        return [f"configs/{name}.yaml", *self.settings, *LOGS, *own, f"run.seed={self.seed}"]

    def config(self) -> Config:
        """Return the configuration but for the epochs."""
        file, *settings = self.arguments
        return load_config(Path(file), settings)

    def epochs(self, n_steps: int) -> list[str]:
        """Return the settings of as many epochs as come nearest to a number of steps, half of them of decay if any."""
        config = self.config()
        n_pairs = len(open_split(config, "train", needs_targets=True))
        n_epochs = max(2, round(n_steps * config.train.batch_size * config.train.accumulation_steps / n_pairs))
        n_decay = n_epochs // 2 if config.train.decay_epochs else 0
        return ["train.steps_per_epoch=null", f"train.epochs={n_epochs - n_decay}", f"train.decay_epochs={n_decay}"]

    def make(self, n_steps: int, n_threads: int) -> None:
        """Train, and translate the test split, unless an earlier call has done so."""
        if (self.output / "metrics.json").is_file():
            return
        file, *settings = self.arguments
        settings += [*self.epochs(n_steps), f"run.root={self.root}", f"run.name={self.name}"]
        for command in (
            ["train.py", "--config", file, *settings],
            ["test.py", "--checkpoint", str(self.root / self.name), "--output", str(self.output)],
        ):
            environment = os.environ | {"OMP_NUM_THREADS": str(n_threads)}
            subprocess.run([sys.executable, *command], check=True, capture_output=True, env=environment)
        print(f"{self.name}: {self.figures()}", flush=True)

    def figures(self) -> dict[str, float]:
        """Return the figures of the translations, and the milliseconds of a step with one sample."""
        of_test = json.loads((self.output / "metrics.json").read_text())["mean"]
        logged = [json.loads(line) for line in (self.root / self.name / "metrics.jsonl").read_text().splitlines()]
        speeds = [line["progress/images_per_s"] for line in logged if "progress/images_per_s" in line]
        return {"ms per image": 1000 / median(speeds)} | {title: of_test[key] for title, key in FIGURES.items()}


def write_pictures(runs: list[Run], path: Path) -> None:
    """Write a grid of test samples: the source if it is an image, the target, then each run's translation."""
    layout = open_split(runs[0].config(), "test", needs_targets=True)
    rows: list[list[Tensor]] = []
    for sample in (layout.read(index) for index in range(min(N_SHOWN, len(layout)))):
        known = [image for image in (sample.source, sample.target) if image is not None and image.shape[0] == 3]
        rows.append([*known, *(read_rgb(run.output / f"{sample.name}.png") for run in runs)])
    write_jpeg(path, picture_table(rows))


def main() -> None:
    """Measure according to the command line, and write the report."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, metavar="FOLDER", help="pairs in train_A, train_B, test_A, test_B")
    parser.add_argument("--steps", type=int, default=1500)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--recipe", nargs="*", default=RECIPES, metavar="NAME")
    parser.add_argument("--settings", nargs="*", default=[], metavar="KEY=VALUE", help="of all recipes")
    parser.add_argument("--jobs", type=int, default=1, help="trainings at a time, which share the cores")
    parser.add_argument("--root", type=Path, help="folder for the runs, where an interrupted measurement is continued")
    parser.add_argument("--pictures", type=Path, help="JPEG of translations of each recipe")
    arguments = parser.parse_args()
    of_data = [f"data.root={arguments.data}"] if arguments.data else DRAWN
    with tempfile.TemporaryDirectory() as temporary:
        settings, root = (*of_data, *arguments.settings), arguments.root or Path(temporary)
        runs = [Run(name, seed, settings, root) for seed, name in product(range(arguments.seeds), arguments.recipe)]
        n_threads = max(1, torch.get_num_threads() // arguments.jobs)
        with ThreadPoolExecutor(arguments.jobs) as pool:
            list(pool.map(lambda run: run.make(arguments.steps, n_threads), runs))
        rows = []
        for recipe in arguments.recipe:
            of_seeds = [run.figures() for run in runs if run.recipe == recipe]
            of_steps = {"ms per image": round(mean(seed.pop("ms per image") for seed in of_seeds), 1)}
            rows.append({"recipe": recipe, **of_steps, **{key: [one[key] for one in of_seeds] for key in of_seeds[0]}})
        write_report("recipes", choose_device("auto"), rows)
        if arguments.pictures:
            write_pictures([run for run in runs if run.seed == 0], arguments.pictures)


if __name__ == "__main__":
    main()
