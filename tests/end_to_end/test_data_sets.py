"""Runs on data sets with bad samples, with all kinds of maps, and with a cache."""

import json
import shutil
from pathlib import Path

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


def test_bad_samples_end_a_run_or_are_skipped_in_validation_too(
    tiny_config: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    root = tmp_path / "pairs"
    for split in ("train", "val"):
        pairs_of(root, split, 5)
        (root / f"{split}_A" / "0.png").write_bytes(b"")
    data = ["data.layout=paired_folders", f"data.root={root}", "data.instance_edges=false", "train.max_steps=5"]
    with pytest.raises(DataError, match=r"0\.png: cannot be read as an image: it is empty"):
        run(tiny_config, *data)
    run(tiny_config, *data, "data.on_bad_sample=skip", "log.images_every_steps=5")
    said = capsys.readouterr().out
    for split in ("train", "val"):
        bad = root / f"{split}_A" / "0.png"
        assert f"of at most 10): {bad}: cannot be read as an image" in said
    assert checkpoint(tiny_config, 5)["step"] == 5
    for file in (root / "train_A").iterdir():
        file.write_bytes(b"")
    with pytest.raises(DataError, match=r"\.png: cannot be read as an image: it is empty"):
        run(tiny_config, *data, "data.on_bad_sample=skip", "run.name=other")


SIZE = 16  # pixels of a source
SETTINGS = ["data.layout=paired_folders", "data.n_classes=3", "data.instances=connected", "data.source_channels=1"]
SETTINGS += ["data.source_folder=['{split}_label','{split}_height']", "data.weight_folder={split}_weight"]
SETTINGS += ["data.source_range=[0,60000]"]
SETTINGS += ["data.preprocess=crop", "data.crop_width=16", "data.crop_height=16", "loss.class_weights={0: 2}"]
SETTINGS += ["data.rotation_degrees=[-20,20]", "augmentation.policy=[color,translation]", "train.batch_size=2"]
SETTINGS += ["train.accumulation_steps=2", "train.pool_size=2", "train.ema_decay=0.9"]


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The configuration of a finished run, `tiny`, that has its checkpoint of step 2 too."""
    folder, rng = tmp_path_factory.mktemp("combined"), np.random.default_rng(0)
    side = 2 * SIZE
    for name, split in zip("abefcd", ("train", "train", "train", "train", "val", "test"), strict=True):
        labels = rng.integers(0, 3, (4, 4), dtype=np.uint8).repeat(4, 0).repeat(4, 1)
        save_image(folder / f"pairs/{split}_label/{name}.png", labels)
        save_image(folder / f"pairs/{split}_height/{name}.png", rng.integers(0, 60000, (SIZE, SIZE), dtype=np.uint16))
        save_image(folder / f"pairs/{split}_img/{name}.png", rng.integers(0, 256, (side, side, 3), dtype=np.uint8))
        weights = np.full((side, side), 200, np.uint8)
        weights[: side // 2] = 0
        save_image(folder / f"pairs/{split}_weight/{name}.png", weights)
    config = write_tiny_config(folder)
    more = [*SETTINGS, f"data.root={folder / 'pairs'}", "generator.scale=2"]
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


def kept(folder: Path) -> list[Path]:
    """Return the files of a cache."""
    return list(folder.rglob("*.pt"))


def test_processes_that_write_at_once_leave_whole_files(
    tiny_config: Path, label_data_set: Path, tmp_path: Path
) -> None:
    arguments = settings(label_data_set, f"data.cache={tmp_path / 'cache'}")
    three = [processes.start(tiny_config, *arguments, "train.max_steps=3", f"run.name={n}") for n in range(3)]
    for process in three:
        process.join(processes.PATIENCE_S)
    assert [process.exitcode for process in three] == [0, 0, 0]
    files = kept(tmp_path / "cache")
    assert len(files) == 3
    assert all(torch.load(file, weights_only=True)["target"].shape == (3, 32, 64) for file in files)


def test_a_run_with_a_cache_equals_one_without(tiny_config: Path, label_data_set: Path, tmp_path: Path) -> None:
    arguments = settings(label_data_set, "train.max_steps=4")
    run(tiny_config, *arguments, "run.name=plain")
    for place, n_kept in (("memory", 0), (tmp_path / "cache", 3)):
        run(tiny_config, *arguments, f"data.cache={place}", "data.workers=2", "--resume", "never")
        assert_same_state(tiny_config, 4, "plain")
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
