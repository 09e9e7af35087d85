"""All that pairs may have at once: label maps and images of other folders, weights, and targets of another size."""

import json
from pathlib import Path

import numpy as np
import pytest

from data.files.image_files import read_rgb
from tests.conftest import save_image, write_tiny_config
from tests.runs import assert_equal, checkpoint, run, translate, without_config

SIZE = 16  # pixels of a source
SETTINGS = ["data.layout=paired_folders", "data.n_classes=3", "data.instances=connected", "data.source_channels=1"]
SETTINGS += ["data.source_folder=['{split}_label','{split}_height']", "data.weight_folder={split}_weight"]
SETTINGS += ["data.preprocess=crop", "data.crop_width=16", "data.crop_height=16", "loss.class_weights={0: 2}"]
SETTINGS += ["data.augment.rotation_degrees=[-20,20]", "augmentation.policy=[color,translation]", "train.batch_size=2"]
SETTINGS += ["train.accumulation_steps=2", "train.pool_size=2", "train.ema_decay=0.9"]


@pytest.fixture(scope="module", params=[0.5, 2], ids=str)
def trained(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The configuration of a finished run, `whole`, and of the same one in two sessions, `tiny`."""
    folder, rng = tmp_path_factory.mktemp("combined"), np.random.default_rng(0)
    side = int(SIZE * request.param)
    for name, split in zip("abefcd", ("train", "train", "train", "train", "val", "test"), strict=True):
        labels = rng.integers(0, 3, (4, 4), dtype=np.uint8).repeat(4, 0).repeat(4, 1)
        save_image(folder / f"pairs/{split}_label/{name}.png", labels)
        save_image(folder / f"pairs/{split}_height/{name}.png", rng.integers(0, 60000, (SIZE, SIZE), dtype=np.uint16))
        save_image(folder / f"pairs/{split}_img/{name}.png", rng.integers(0, 256, (side, side, 3), dtype=np.uint8))
        weights = np.full((side, side), 200, np.uint8)
        weights[: side // 2] = 0
        save_image(folder / f"pairs/{split}_weight/{name}.png", weights)
    config = write_tiny_config(folder)
    more = [*SETTINGS, f"data.root={folder / 'pairs'}", f"generator.scale={request.param}"]
    run(config, *more, "checkpoint.every_steps=2", "run.name=whole")
    run(config, *more, "train.max_steps=2")
    run(config, *more)
    return config


def test_a_run_resumes_with_the_same_bits(trained: Path) -> None:
    assert_equal(without_config(checkpoint(trained, 4)), without_config(checkpoint(trained, 4, "whole")))


def test_tiles_give_the_same_image_and_figures(trained: Path) -> None:
    results = trained.parent / "results"
    arguments = ["--checkpoint", str(trained.parent / "runs" / "tiny"), "--device", "cpu", "--opt-level", "O0"]
    translate(*arguments, "--output", str(results / "whole"))
    translate(*arguments, "--output", str(results / "tiled"), "--tile", "16")
    whole, tiled = (read_rgb(results / name / "d.png").int() for name in ("whole", "tiled"))
    assert whole.shape == tiled.shape
    assert (whole - tiled).abs().max() <= 1
    report = json.loads((results / "whole" / "metrics.json").read_text())
    assert report["mean"]["l1_weighted"] != report["mean"]["l1"]
