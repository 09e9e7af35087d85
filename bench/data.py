"""Samples per second of each layout by loader processes, decoded or cached, compared with the originals' loaders.

python -m bench.data [--repeats N] [--root FOLDER in pix2pixHD's layout]

Each turn opens a loader and measures it between deliveries once it runs steadily, while nothing else runs.
"""

import argparse
import pickle
import shutil
import tempfile
import time
from collections.abc import Callable, Generator, Iterator
from contextlib import ExitStack, closing, contextmanager
from functools import partial
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import torch
from PIL import Image

from bench.measure import Rows, in_turns, median, median_ratio, seconds_of, write_report
from bench.references import LabelMapFolders, SideBySideFiles, reference_batches
from configs import build
from configs.load import config_from_dict, config_to_dict
from configs.schema import Config
from configs.splits import cache_folder, open_split, training_split
from data.batch import Batch
from data.facades.dataset import SyntheticFacades
from data.files import pillow_image
from data.layout import Layout
from data.loader import TrainingDataset, TrainingSampler, training_batches
from data.preprocessing import place

OpenLoader = Callable[[int], Generator[Any]]  # opens it with a number of processes

N_SAMPLES = 8
TURN_S = 0.4
PAIRED = "paired_folders 2048x1024 -> 1024x512"
SIDE_BY_SIDE = "side_by_side 2x 256x256 -> 286 -> 256"
SIZES = ["data.load_width=286", "data.load_height=286", "data.crop_width=256", "data.crop_height=256"]
SETTINGS = {
    PAIRED: ["data.layout=paired_folders", "data.n_classes=35", "data.instance_edges=true", "data.load_width=1024"],
    SIDE_BY_SIDE: ["data.layout=side_by_side", "data.preprocess=resize_and_crop", *SIZES],
}


def write_triplets(root: Path) -> None:
    """Write house fronts: 2048x1024 in pix2pixHD's folders, as PNG; 256x256 side by side, as JPEG."""
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
        (root / "train").mkdir(exist_ok=True)
        maps["img"].save(root / "train" / f"{number}.jpg", quality=95)


def configured(name: str, root: Path, *settings: str) -> Config:
    """Return the configuration of a layout."""
    return config_from_dict(config_to_dict(Config()), name, [f"data.root={root}", *settings, *SETTINGS[name]])


def batches(config: Config, layout: Layout, n_workers: int) -> Generator[Batch]:
    """Return batches of one sample as train.py loads them."""
    sampler = TrainingSampler(layout=layout, batch_size=1, seed=0, rank=0, world_size=1, first_batch=0)
    dataset = TrainingDataset(layout, build.build_preprocessing(config), seed=0)
    return training_batches(dataset, sampler, n_workers=n_workers, pin_memory=False)


@contextmanager
def sides_of(name: str, root: Path, folder: Path) -> Iterator[dict[str, OpenLoader]]:
    """Yield a function per side that opens its loader, with filled caches, which are removed afterwards."""
    files = LabelMapFolders(root, width=1024) if name == PAIRED else SideBySideFiles(root / "train", 286, 256)
    layouts: dict[str, OpenLoader] = {"reference": partial(reference_batches, files)}
    with ExitStack() as stack:
        for side, cache in {"decoded": "none", "cache memory": "memory", "cache disk": f"{folder}/cache"}.items():
            config = configured(name, root, f"data.cache={cache}")
            if kept := cache_folder(config, folder):
                stack.callback(shutil.rmtree, kept, ignore_errors=True)
            layout = open_split(config, "train", needs_targets=True)
            layout = training_split(config, layout, folder)
            for index in range(len(layout)):
                layout.read(index)  # fills its cache
            layouts[side] = partial(batches, config, layout)
        yield layouts


def samples_per_s(open_loader: OpenLoader, n_workers: int, turn_s: float) -> float:
    """Return the speed of a loader once it runs steadily."""
    together = max(1, n_workers)  # processes that start together deliver together
    with closing(open_loader(n_workers)) as loader:
        for _ in range(2 * together):
            next(loader)
        count, begin = 0, time.perf_counter()
        while True:
            next(loader)
            count += 1
            if (elapsed_s := time.perf_counter() - begin) >= turn_s and count % together == 0:
                return count / elapsed_s


def rows_of(name: str, n_workers: int, speeds: dict[str, list[float]]) -> Rows:
    """Return a row for each side. speeds: Samples per second, by turns."""
    return [
        {"layout": name, "side": side, "workers": n_workers, "samples/s": median(ours)}
        | {"times as fast": median_ratio(ours, speeds["reference"])}
        for side, ours in speeds.items()
    ]


def stage_rows(root: Path, repeats: int) -> Rows:
    """Return the milliseconds of each stage of a sample of PAIRED; decoding includes reading the files."""
    config = configured(PAIRED, root)
    sample = (layout := open_split(config, "train", needs_targets=True)).read(0)
    placement = build.build_preprocessing(config).draw(sample, np.random.default_rng(0))
    batch = Batch.of([placed := place(sample, placement, source_is_ids=True)])
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    stages: dict[str, Callable[[], object]] = {
        "read": lambda: [Path(str(file)).read_bytes() for file in layout.provenance(0).files.values()],
        "decode": lambda: layout.read(0),
        "decode, by Pillow": patch.object(pillow_image, "kornia", None)(lambda: layout.read(0)),
        "resize and crop": lambda: place(sample, placement, source_is_ids=True),
        "stack": lambda: Batch.of([placed]),
        "send to the training": lambda: pickle.loads(pickle.dumps(batch)),
        "copy to the device": lambda: batch.to(device),
    }
    seconds = in_turns({stage: partial(seconds_of, work, device) for stage, work in stages.items()}, repeats + 1)
    return [{"stage": stage, "ms": 1000 * median(times[1:])} for stage, times in seconds.items()]


def main() -> None:
    """Measure according to the command line, and write the report."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--root", type=Path, help="data set of paired_folders; default: drawn house fronts")
    arguments = parser.parse_args()
    torch.set_num_threads(1)  # like a loader process
    rows: Rows = []
    with tempfile.TemporaryDirectory() as drawn:
        write_triplets(Path(drawn))
        write_report("data_stages", torch.device("cpu"), stage_rows(arguments.root or Path(drawn), 20))
        for name in SETTINGS:
            root = arguments.root if arguments.root and name == PAIRED else Path(drawn)
            with sides_of(name, root, Path(drawn)) as sides:
                for n_workers in (0, 1, 2):
                    calls = {side: partial(samples_per_s, opened, n_workers, TURN_S) for side, opened in sides.items()}
                    rows += rows_of(name, n_workers, in_turns(calls, arguments.repeats))
    write_report("data", torch.device("cpu"), rows)


if __name__ == "__main__":
    main()
