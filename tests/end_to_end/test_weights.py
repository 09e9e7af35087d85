"""Trainings with weights of pixels: of maps, of classes, and of both."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch

from data.files.image_files import read_ids, read_rgb
from tests.conftest import save_image, write_tiny_config
from tests.runs import checkpoint, records, run, translate, with_slow
from tools.check_data import __main__ as check_data
from utils.errors import UserError

SETTINGS = ["data.layout=paired_folders", "data.instance_edges=false", "data.preprocess=crop"]
SETTINGS += ["data.crop_width=32", "data.crop_height=32", "data.n_classes=5", "train.batch_size=2"]
MAPS = ["data.weight_folder={split}_weight"]
AUGMENT = ["data.rotation_degrees=[-20,20]", "augmentation.policy=[translation,cutout]"]
WEIGHTED = ("l1_weighted", "psnr_weighted", "ssim_weighted")


def write_pairs(root: Path) -> None:
    """Pairs with maps that ignore the right half, in which the targets are noise."""
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


def test_a_split_for_testing_may_lack_maps(trained: Path, tmp_path: Path) -> None:
    folder = trained.parent / "pairs" / "test_weight"
    folder.rename(tmp_path / "away")
    try:
        translate("--checkpoint", str(trained.parent / "runs" / "whole"), "--output", str(tmp_path / "out"))
    finally:
        (tmp_path / "away").rename(folder)
    report = json.loads((tmp_path / "out" / "metrics.json").read_text())
    assert "l1_weighted" in report["mean"]  # of the classes


@pytest.mark.parametrize("retain_graph", with_slow(["true"], ["false"]))
def test_weights_of_1_train_as_no_weights(config: Path, retain_graph: str) -> None:
    more = [f"train.retain_graph={retain_graph}", "train.max_steps=2", "data.n_classes=5"]
    run(config, *settings(config, *more), f"run.name=plain_{retain_graph}")
    for path in (config.parent / "pairs").glob("*_weight/*.png"):
        ones = path.parent.name.replace("weight", "ones")
        save_image(path.parents[1] / ones / path.name, np.full((40, 48), 255, np.uint8))
    more += ["data.weight_folder={split}_ones"]
    run(config, *settings(config, *more), f"run.name=ones_{retain_graph}")
    plain, weighted = (checkpoint(config, 2, f"{name}_{retain_graph}") for name in ("plain", "ones"))
    for name, value in plain["networks"]["generator"].items():
        torch.testing.assert_close(weighted["networks"]["generator"][name], value, rtol=0, atol=2e-5)
    assert "l1_weighted" not in records(config, name=f"plain_{retain_graph}")[-1]


def test_a_run_that_adds_maps_is_another_data_set(config: Path) -> None:
    run(config, *settings(config, "run.name=changed", "train.max_steps=2"))
    with pytest.raises(UserError, match="--accept-changed-data"):
        run(config, *settings(config, *MAPS, "run.name=changed", "train.max_steps=4"))


def test_a_run_resumes_with_other_weights_of_classes(config: Path, capsys: pytest.CaptureFixture[str]) -> None:
    best = ["run.name=reweighted", "checkpoint.best=l1_weighted", "checkpoint.keep=0"]
    run(config, *settings(config, *best, "loss.class_weights={0: 0, 1: 0}", "train.max_steps=2"))
    run(config, *settings(config, *best, "loss.class_weights={0: 0, 2: 5}", "train.max_steps=4"))
    assert "changed since: loss.class_weights {'0': 0.0, '1': 0.0} -> {'0': 0.0, '2': 5.0}" in capsys.readouterr().out
    (validation,) = (row for row in records(config, "validation/l1", "reweighted") if row["step"] == 4)
    assert checkpoint(config, 4, "reweighted")["best"] == -validation["validation/l1_weighted"]


def test_the_plan_reports_weights_that_no_loss_has(config: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run(config, *settings(config, *MAPS, "loss.l1=0", "loss.feature_matching=0", "run.name=idle", "--dry-run"))
    expected = "maps of {split}_weight; only in metrics, because loss.l1, loss.feature_matching and loss.vgg are 0"
    assert f"weights        {expected}" in capsys.readouterr().out


@pytest.mark.parametrize(
    "more", [["loss.class_weights={0: 1}"], ["data.layout=synthetic_facades", "data.n_classes=0", *MAPS]]
)
def test_the_best_needs_weights_that_have_an_effect(config: Path, more: list[str]) -> None:
    with pytest.raises(UserError, match=r"checkpoint\.best is l1_weighted, expected one that is measured"):
        run(config, *settings(config, *more, "checkpoint.best=l1_weighted", "run.name=unweighted"))


def test_check_data_finds_what_is_wrong_with_maps(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_pairs(tmp_path)
    weights = tmp_path / "train_weight"
    save_image(weights / "a.png", np.zeros((40, 48), np.uint8))
    save_image(weights / "b.png", np.zeros((40, 47), np.uint8))
    save_image(weights / "c.png", np.zeros((40, 48, 3), np.uint8))
    (weights / "d.png").unlink()
    with pytest.raises(SystemExit):
        check_data.main([str(tmp_path), "--n-classes", "5"])
    out = capsys.readouterr().out
    assert "train_weight/b.png is 47x40: make them the same size" in out
    assert "train_weight/c.png: has 3 channels, a map of weights has 1: save it in grey" in out
    assert "train_label/d.png: without a partner of the same name in" in out
    assert " share " not in out  # val and test have the same masks


@pytest.mark.slow
def test_the_sheet_of_samples_shows_weights(config: Path, tmp_path: Path) -> None:
    sheet = tmp_path / "sheet.png"
    shown = {}
    for name, more in (("plain", []), ("weighted", MAPS)):
        check_data.main(["--config", str(config), *settings(config, *more), "--show", "2", "--sheet", str(sheet)])
        shown[name] = read_rgb(sheet)
    assert shown["weighted"].shape[2] > shown["plain"].shape[2]
