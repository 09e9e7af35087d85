"""Trainings with weights of pixels: of maps, of classes, and of both."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch

from data.files.image_files import read_ids, read_rgb
from tests.conftest import save_image, write_tiny_config
from tests.runs import records, run, translate

SETTINGS = ["data.layout=paired_folders", "data.instance_edges=false", "data.preprocess=crop"]
SETTINGS += ["data.crop_width=32", "data.crop_height=32", "data.n_classes=5", "train.batch_size=2"]
MAPS = ["data.weight_folder={split}_weight"]
AUGMENT = ["data.rotation_degrees=[-20,20]", "augmentation.policy=[translation,cutout]"]
WEIGHTED = ("l1_weighted", "psnr_weighted", "ssim_weighted")


def write_pairs(root: Path) -> None:
    """Write pairs whose maps ignore the right half. The targets are noise there."""
    rng = np.random.default_rng(0)
    for split, names in (("train", "abcd"), ("val", "ef"), ("test", "gh")):
        for name in names:
            labels = rng.integers(0, 5, (5, 6), dtype=np.uint8).repeat(8, 0).repeat(8, 1)
            photo = (labels[..., None] * [40, 20, 10] + 20).astype(np.uint8)
            photo[:, 24:] = rng.integers(0, 256, (40, 24, 3))
            weights = np.full((40, 48), 255, np.uint8)
            weights[:, 24:] = 0
            save_image(root / f"{split}_label" / f"{name}.png", labels)
            save_image(root / f"{split}_img" / f"{name}.png", photo)
            save_image(root / f"{split}_weight" / f"{name}.png", weights)


@pytest.fixture(scope="module")
def config(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("weights")
    write_pairs(folder / "pairs")
    return write_tiny_config(folder)


def settings(config: Path, *more: str) -> list[str]:
    return [*SETTINGS, f"data.root={config.parent / 'pairs'}", *more]


@pytest.fixture(scope="module")
def trained(config: Path) -> Path:
    """The configuration of a run with maps and classes, `whole`."""
    more = [*MAPS, "loss.class_weights={0: 3, 1: 0}", *AUGMENT, "checkpoint.best=l1_weighted"]
    run(config, *settings(config, *more, f"data.cache={config.parent / 'cache'}"), "run.name=whole")
    return config


def test_plan_log_and_validation_show_the_weights(trained: Path) -> None:
    run_folder = trained.parent / "runs" / "whole"
    log = (run_folder / "log.txt").read_text()
    assert "weights        maps of {split}_weight, 0 3, 1 0" in log
    means = [row["loss/G/mean_weight"] for row in records(trained, "loss/G/mean_weight", "whole")]
    assert len(means) == 2
    assert all(0 < mean < 3 for mean in means)
    (validation,) = records(trained, "validation/l1", "whole")
    assert {f"validation/{name}" for name in WEIGHTED} < validation.keys()
    assert validation["validation/l1_weighted"] != validation["validation/l1"]
    assert (run_folder / "best.pt").is_file()


def test_results_have_both_figures(trained: Path, tmp_path: Path) -> None:
    run_folder = trained.parent / "runs" / "whole"
    translate("--checkpoint", str(run_folder), "--output", str(tmp_path / "out"), "--device", "cpu")
    report = json.loads((tmp_path / "out" / "metrics.json").read_text())
    assert {"l1", *WEIGHTED} < report["mean"].keys()
    fake, target = read_rgb(tmp_path / "out" / "g.png"), read_rgb(trained.parent / "pairs" / "test_img" / "g.png")
    labels = read_ids(trained.parent / "pairs" / "test_label" / "g.png")[0]
    weights = torch.tensor([3.0, 0, 1, 1, 1])[labels]
    weights[:, 24:] = 0
    error = (fake.double() - target.double()).abs().mean(0) / 255
    assert report["images"]["g"]["l1_weighted"] == pytest.approx(float((error * weights).sum() / weights.sum()))
