"""Samples per second of each layout, by loader processes and cache.

python -m bench.data [--root FOLDER in pix2pixHD's layout]
"""

import argparse
import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import torch
from PIL import Image

import build
from bench.report import write_report
from configs.load import config_from_dict, config_to_dict
from configs.schema import Config
from data.layout import Layout
from data.loader import TrainingDataset, training_batches
from data.sampler import TrainingSampler
from data.synthetic_facades import SyntheticFacades

N_SAMPLES = 8
SETTINGS = {
    "synthetic_facades 128x128": ["data.synthetic.height=128", "data.synthetic.width=128", "data.preprocess=none"],
    "paired_folders 2048x1024 -> 1024x512": [
        "data.layout=paired_folders",
        "data.n_classes=35",
        "data.instance_edges=true",
        "data.load_width=1024",
    ],
    "side_by_side 2x 256x256 -> 286 -> 256": [
        "data.layout=side_by_side",
        "data.preprocess=resize_and_crop",
        *(f"data.load_{side}=286" for side in ("width", "height")),
        *(f"data.crop_{side}=256" for side in ("width", "height")),
    ],
}


def write_triplets(root: Path) -> None:
    """House fronts of 2048x1024 in pix2pixHD's folders, as PNG, and pairs of 256x256 side by side, as JPEG."""
    facades = SyntheticFacades(split="train", seed=0, n_samples=N_SAMPLES, height=256, width=512)
    for number in range(N_SAMPLES):
        sample = facades.read(number)
        assert sample.instances is not None
        assert sample.target is not None
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


@contextmanager
def cached(config: Config, layout: Layout, folder: Path) -> Iterator[Layout]:
    """The layout behind an empty cache, which goes afterwards."""
    yield build.build_training_layout(config, layout, folder)
    if kept := build.cache_folder(config, folder):
        shutil.rmtree(kept, ignore_errors=True)


def samples_per_s(layout: Layout, config: Config, n_workers: int, *, seconds: float = 1.5) -> float:
    """Speed of the whole loader once every sample has been read and the workers run."""
    sampler = TrainingSampler(n_samples=len(layout), batch_size=1, seed=0, rank=0, world_size=1, first_batch=0)
    dataset = TrainingDataset(layout, build.build_preprocessing(config), seed=0)
    with closing(training_batches(dataset, sampler, n_workers=n_workers, pin_memory=False)) as batches:
        for _ in range(2 * len(layout)):
            next(batches)
        count, begin = 0, time.perf_counter()
        while time.perf_counter() - begin < seconds:
            next(batches)
            count += 1
        return count / (time.perf_counter() - begin)


def main() -> None:
    """Parse the command line, measure, report."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--root", type=Path, help="data set for paired_folders; default: drawn house fronts")
    arguments = parser.parse_args()
    torch.set_num_threads(1)  # as in a loader process
    rows: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory() as drawn:
        write_triplets(Path(drawn))
        for name, settings in SETTINGS.items():
            is_pairs = "layout=paired" in " ".join(settings)
            root = arguments.root if arguments.root and is_pairs else drawn
            for cache in ("none",) if name.startswith("synthetic") else ("none", "memory", "disk"):
                overrides = [f"data.root={root}", f"data.cache={cache}", f"data.cache_folder={drawn}/cache", *settings]
                config = config_from_dict(config_to_dict(Config()), name, overrides)
                for n_workers in (0, 1, 2):
                    layout = build.build_layout(config, "train", needs_targets=True)
                    with cached(config, layout, Path(drawn)) as source:
                        speed = samples_per_s(source, config, n_workers)
                    rows.append({"layout": name, "cache": cache, "workers": n_workers, "samples/s": speed})
    write_report("data", torch.device("cpu"), rows)


if __name__ == "__main__":
    main()
