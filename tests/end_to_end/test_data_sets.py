"""Runs on data sets with bad samples, with other files beside them, with all kinds of maps, and with a cache."""

import json
import shutil
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from configs import splits
from configs.load import load_config
from configs.splits import cache_folder
from data.batch import DataError
from data.files.image_files import read_rgb
from tests import processes
from tests.conftest import save_image, write_tiny_config
from tests.runs import assert_equal, assert_same_state, checkpoint, run, translate
from tools import clear_cache
from utils.checkpoint_folder import checkpoint_path


def pairs_of(root: Path, split: str, n: int) -> None:
    for number in range(n):
        for side in "AB":
            save_image(root / f"{split}_{side}" / f"{number}.png", np.full((32, 32, 3), 9 * number, np.uint8))


@pytest.mark.parametrize("split", ["train", "val"])
def test_the_first_sample_and_those_of_validation_are_skipped_too(
    tiny_config: Path, tmp_path: Path, split: str, capsys: pytest.CaptureFixture[str]
) -> None:
    root = tmp_path / "pairs"
    pairs_of(root, "train", 5)
    pairs_of(root, split, 5)
    bad = root / f"{split}_A" / "0.png"
    bad.write_bytes(b"")
    data = ["data.layout=paired_folders", f"data.root={root}", "data.instance_edges=false", "train.max_steps=1"]
    with pytest.raises(DataError, match=r"0\.png: cannot be read as an image: it is empty"):
        run(tiny_config, *data)
    run(tiny_config, *data, "data.on_bad_sample=skip", "log.images_every_steps=1")
    warning = f"skipped a bad sample, replaced by another one (1 of at most 10): {bad}: cannot be read as an image"
    assert warning in capsys.readouterr().out
    assert checkpoint(tiny_config, 1)["step"] == 1
    run(tiny_config, *data, "data.on_bad_sample=skip", "run.name=dry", "--dry-run")
    assert warning in capsys.readouterr().out
    for file in (root / f"{split}_A").iterdir():
        file.write_bytes(b"")
    with pytest.raises(DataError, match=r"\.png: cannot be read as an image: it is empty"):
        run(tiny_config, *data, "data.on_bad_sample=skip", "run.name=other")


def test_files_of_other_formats_are_counted_before_the_first_step(
    tiny_config: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for side in "AB":
        save_image(tmp_path / "pairs" / f"train_{side}" / "x.png", np.zeros((32, 32, 3), np.uint8))
    for name in ("a.gif", "b.gif", "c.heic"):
        (tmp_path / "pairs" / "train_A" / name).touch()
    data = ["data.layout=paired_folders", f"data.root={tmp_path / 'pairs'}", "data.instance_edges=false"]
    run(tiny_config, *data, "--dry-run")
    lines = capsys.readouterr().out.splitlines()
    assert "left out       files of other formats: 2 .gif, 1 .heic" in lines
    assert any(line.startswith("data           1 sample, the first is x 32x32") for line in lines)


SIZE = 16  # pixels of a source
SETTINGS = ["data.layout=paired_folders", "data.n_classes=3", "data.instances=connected", "data.source_channels=1"]
SETTINGS += ["data.source_folder=['{split}_label','{split}_height']", "data.weight_folder={split}_weight"]
SETTINGS += ["data.source_range=[0,60000]"]
SETTINGS += ["data.preprocess=crop", "data.crop_width=16", "data.crop_height=16", "loss.class_weights={0: 2}"]
SETTINGS += ["data.augment.rotation_degrees=[-20,20]", "augmentation.policy=[color,translation]", "train.batch_size=2"]
SETTINGS += ["train.accumulation_steps=2", "train.pool_size=2", "train.ema_decay=0.9"]


@pytest.fixture(scope="module", params=[0.5, 2], ids=str)
def trained(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The configuration of a finished run, `tiny`, that has its checkpoint of step 2 too."""
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
    run(config, *more, "checkpoint.every_steps=2")
    return config


def test_a_run_resumes_with_the_same_bits(trained: Path) -> None:
    whole, folder = checkpoint(trained, 4), trained.parent / "runs" / "tiny"
    checkpoint_path(folder, 4).unlink()
    run(folder / "config.yaml")
    assert_equal(checkpoint(trained, 4), whole)


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


def settings(root: Path, *more: str) -> list[str]:
    return ["data.layout=paired_folders", "data.n_classes=5", f"data.root={root}", "data.crop_height=32", *more]


def kept(folder: Path) -> set[int]:
    """Return the files of a cache by their inodes, which all names of a file share."""
    return {path.stat().st_ino for path in folder.rglob("*.pt")}


def test_the_plan_reports_how_much_will_be_kept(
    tiny_config: Path,
    label_data_set: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(shutil, "disk_usage", lambda _: SimpleNamespace(total=10 * 2**30, used=0, free=4 * 2**30))
    folder = tmp_path / "cache"
    run(tiny_config, *settings(label_data_set, f"data.cache={folder}"), "--dry-run")
    said = [said for said in capfd.readouterr().out.splitlines() if said.startswith("cache ")]
    assert said == [f"cache          {folder}, about 0.0 MiB for all samples, 3.00 GiB free"]
    assert not folder.exists()


def test_processes_that_write_at_once_leave_whole_files(
    tiny_config: Path, label_data_set: Path, tmp_path: Path
) -> None:
    arguments = settings(label_data_set, f"data.cache={tmp_path / 'cache'}")
    three = [processes.start(tiny_config, *arguments, "train.max_steps=3", f"run.name={n}") for n in range(3)]
    for process in three:
        process.join(processes.PATIENCE_S)
    assert [process.exitcode for process in three] == [0, 0, 0]
    files = list((tmp_path / "cache").rglob("*.*"))
    assert len(files) == 2 * 3
    assert len(kept(tmp_path / "cache")) == 3
    assert all(torch.load(file, weights_only=True)["target"].shape == (3, 32, 64) for file in files)


def test_a_run_with_a_cache_equals_one_without(tiny_config: Path, label_data_set: Path, tmp_path: Path) -> None:
    arguments = settings(label_data_set, "train.max_steps=7")
    run(tiny_config, *arguments, "run.name=plain")
    for place, n_kept in (("memory", 0), (tmp_path / "cache", 3)):
        run(tiny_config, *arguments, f"data.cache={place}", "data.workers=2", "--resume", "never")
        assert_same_state(tiny_config, 7, "plain")
        assert len(kept(tmp_path / "cache")) == n_kept
    config = load_config(tiny_config, [*arguments, "data.cache=memory"])
    folder = cache_folder(config, tiny_config.parent / "runs" / "tiny")
    assert folder is not None
    assert not folder.exists()


def test_one_command_removes_it(
    tiny_config: Path, label_data_set: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(splits, "SHARED_MEMORY", tmp_path / "shm")
    arguments = settings(label_data_set, "train.max_steps=3")
    run(tiny_config, *arguments, f"data.cache={tmp_path / 'cache'}")
    (tmp_path / "cache" / "mine.txt").touch()
    left_behind = cache_folder(load_config(tiny_config, [*arguments, "data.cache=memory"]), tmp_path / "killed")
    assert left_behind is not None
    shutil.copytree(tmp_path / "cache" / splits.CACHE_NAME, left_behind)
    clear_cache.main(["--folder", str(tmp_path / "cache")])
    assert [path.name for path in (tmp_path / "cache").iterdir()] == ["mine.txt"]
    assert not left_behind.exists()
