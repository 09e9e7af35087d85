"""Measure samples per second of the data loader, with and without caches, against pix2pixHD's loader.

python -m bench.data [--repeats N] [--root FOLDER]

Each turn opens one loader, warms it up, and measures it while no other loader runs.
"""

import argparse
import shutil
import tempfile
import time
from collections.abc import Callable, Generator, Iterator
from contextlib import ExitStack, closing, contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import torch
from PIL import Image

from bench.measure import Rows, in_turns, median, median_ratio, write_report
from bench.references import LabelMapFolders, reference_batches
from configs import build
from configs.load import config_from_dict, config_to_dict
from configs.schema import Config
from configs.splits import cache_folder, open_split, training_split
from data.batch import Batch
from data.facades.dataset import SyntheticFacades
from data.layout import Layout
from data.loader import TrainingDataset, TrainingSampler, training_batches

OpenLoader = Callable[[int], Generator[Any]]  # opens a loader with this number of processes

N_SAMPLES = 8
TURN_S = 0.4
SETTINGS = ["data.layout=paired_folders", "data.n_classes=35", "data.instance_edges=true", "data.load_width=1024"]


def write_triplets(root: Path) -> None:
    """Write label maps, instance maps and pictures of house fronts to pix2pixHD's folders, as 2048x1024 PNG."""
    facades = SyntheticFacades(split="train", seed=0, n_samples=N_SAMPLES, height=256, width=512)
    for number in range(N_SAMPLES):
        sample = facades.read(number)
        assert sample.instances is not None and sample.target is not None  # noqa: PT018
        maps = {
            "label": Image.fromarray(sample.source[0].numpy()),
            "inst": Image.fromarray(sample.instances[0].numpy().astype("uint16")),
            "img": Image.fromarray(sample.target.permute(1, 2, 0).contiguous().numpy()),
        }
        for kind, image in maps.items():
            (root / f"train_{kind}").mkdir(parents=True, exist_ok=True)
            resample = Image.Resampling.BICUBIC if kind == "img" else Image.Resampling.NEAREST
            image.resize((2048, 1024), resample).save(root / f"train_{kind}" / f"{number}.png")


def batches(config: Config, layout: Layout, n_workers: int) -> Generator[Batch]:
    """Return batches of one sample, loaded as in train.py."""
    sampler = TrainingSampler(layout=layout, batch_size=1, seed=0, rank=0, world_size=1, first_batch=0)
    dataset = TrainingDataset(layout, build.build_preprocessing(config), seed=0)
    return training_batches(dataset, sampler, n_workers=n_workers, pin_memory=False)


@contextmanager
def sides_of(root: Path, folder: Path) -> Iterator[dict[str, OpenLoader]]:
    """Yield loader names with functions that open the loaders. Caches are filled first and removed at the end."""
    loaders: dict[str, OpenLoader] = {"reference": partial(reference_batches, LabelMapFolders(root, width=1024))}
    with ExitStack() as stack:
        for name, cache in {"decoded": "none", "cache memory": "memory", "cache disk": f"{folder}/cache"}.items():
            settings = [f"data.root={root}", f"data.cache={cache}", *SETTINGS]
            config = config_from_dict(config_to_dict(Config()), "bench", settings)
            if cached := cache_folder(config, folder):
                stack.callback(shutil.rmtree, cached, ignore_errors=True)
            layout = open_split(config, "train", needs_targets=True)
            layout = training_split(config, layout, folder)
            for index in range(len(layout)):
                layout.read(index)  # fills the cache
            loaders[name] = partial(batches, config, layout)
        yield loaders


def samples_per_s(open_loader: OpenLoader, n_workers: int, turn_s: float) -> float:
    """Return the samples per second of a loader after warm-up."""
    n_together = max(1, n_workers)  # all processes deliver a sample at about the same time
    with closing(open_loader(n_workers)) as loader:
        for _ in range(2 * n_together):
            next(loader)
        count, begin = 0, time.perf_counter()
        while True:
            next(loader)
            count += 1
            if (elapsed_s := time.perf_counter() - begin) >= turn_s and count % n_together == 0:
                return count / elapsed_s


def rows_of(n_workers: int, speeds: dict[str, list[float]]) -> Rows:
    """Return a report row for each loader ("side"). speeds: Samples per second in each turn, by loader."""
    return [
        {"side": side, "workers": n_workers, "samples/s": median(ours)}
        | {"times as fast": median_ratio(ours, speeds["reference"])}
        for side, ours in speeds.items()
    ]


def main() -> None:
    """Measure according to the command line, and write the report."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--root", type=Path, help="data set in pix2pixHD's folders; default: synthetic data")
    arguments = parser.parse_args()
    torch.set_num_threads(1)  # like a loader process
    rows: Rows = []
    with tempfile.TemporaryDirectory() as drawn:
        if arguments.root is None:
            write_triplets(Path(drawn))
        with sides_of(arguments.root or Path(drawn), Path(drawn)) as loaders:
            for n_workers in (0, 1, 2):
                calls = {name: partial(samples_per_s, opened, n_workers, TURN_S) for name, opened in loaders.items()}
                rows += rows_of(n_workers, in_turns(calls, arguments.repeats))
    write_report("data", torch.device("cpu"), rows)


if __name__ == "__main__":
    main()
