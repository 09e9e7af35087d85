"""Journeys with images that are not 8-bit RGB: several bands, 16 bits, floats."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch

import training.run
from data.batch import DataError
from data.files.image_files import StoredForm, read_stored
from data.files.tiff_tags import file_tags
from tests.conftest import save_image, write_tiny_config
from tests.images import GEO_TAGS, bands, heights, save_npy, tifffile
from tests.runs import assert_same_state, checkpoint, run, translate, with_slow
from utils.checkpoint import CheckpointError
from utils.errors import ConfigError, UserError

CONFIG = """
base: tiny.yaml
data: {{layout: paired_folders, root: {root}/pairs, instance_edges: false, source_channels: 4, target_channels: 1,
        source_range: [0, 4000, 0, 9000, 0, 70, 0, 60000], target_range: [-20, 480], target_files: float32{suffix}}}
checkpoint: {{every_steps: 2, keep: 0}}
log: {{images_every_steps: 2}}
"""
UNDECIDED = [f"data.{name}=null" for name in ("source_range", "target_range", "target_files")]
TARGET = StoredForm(1, "data.target_channels", is_8_bit=False)


def save_tiff(path: Path, pixels: np.ndarray) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    options = {"planarconfig": "contig"} if pixels.ndim == 3 else {}
    pixels = pixels.transpose(1, 2, 0) if pixels.ndim == 3 else pixels
    tifffile().imwrite(path, pixels, photometric="minisblack", extratags=GEO_TAGS, **options)


def make_pairs(folder: Path, suffix: str, save: Callable[[Path, np.ndarray], None]) -> Path:
    """Write a configuration and pairs of 4 bands in 16 bits and heights in metres."""
    for split, seeds in {"train": range(4), "val": range(4, 6), "test": range(6, 8)}.items():
        for seed in seeds:
            save(folder / "pairs" / f"{split}_A" / f"{seed}{suffix}", bands(seed))
            save(folder / "pairs" / f"{split}_B" / f"{seed}{suffix}", heights(seed))
    write_tiny_config(folder)
    path = folder / "bands.yaml"
    path.write_text(CONFIG.format(root=folder, suffix=suffix))
    return path


@pytest.fixture
def array_config(tmp_path: Path) -> Path:
    return make_pairs(tmp_path, ".npy", save_npy)


@pytest.fixture(params=with_slow([".tif"], [".npy"]))
def config(tmp_path: Path, request: pytest.FixtureRequest) -> Path:
    suffix: str = request.param
    return make_pairs(tmp_path, suffix, save_tiff if suffix == ".tif" else save_npy)


def test_16_bit_bands_become_heights_in_metres(config: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(ConfigError, match=r"has images that are not 8-bit RGB\. Add data\.source_range=\[0,") as error:
        run(config, *UNDECIDED)
    run(config, *UNDECIDED, *str(error.value).partition("Add ")[2].split())
    shown = capsys.readouterr().out
    assert "sources        4 channels, values " in shown
    assert "targets        1 channel, values -" in shown
    folder, runs = config.parent, config.parent / "runs"
    suffix = next((folder / "pairs" / "test_A").iterdir()).suffix
    saved = checkpoint(config, 4)["config"]["data"]
    assert (len(saved["source_range"]), len(saved["target_range"])) == (8, 2)
    assert saved["target_files"] == f"float32{suffix}"
    settings = (runs / "tiny" / "config.yaml").read_text()
    assert "target_files: float32" in settings

    translate("--checkpoint", str(runs / "tiny"), "--output", str(folder / "out"))
    translate("--checkpoint", str(runs / "tiny"), "--output", str(folder / "tiled"), "--tile", "16")
    arguments = ["--checkpoint", str(runs / "tiny"), "--input", str(folder / "pairs" / "test_A"), "--max-pixels", "99"]
    with pytest.raises(UserError, match=r"40x32 pixels take .*, more than 99 pixels: .* --max-pixels 1280, .* --tile"):
        translate(*arguments, "--output", str(folder / "refused"))
    for choice in ("refuse", "keep"):
        translate(*arguments, "--output", str(folder / "parts"), "--tile", "16", "--existing", choice)
    assert "kept         2 existing images" in capsys.readouterr().out
    for seed in (6, 7):
        whole, tiled, parts = (
            read_stored(folder / name / f"{seed}{suffix}", TARGET) for name in ("out", "tiled", "parts")
        )
        assert torch.allclose(whole, parts, atol=0.05)
        assert (whole.shape, whole.dtype) == ((1, 32, 40), torch.float32)
        assert saved["target_range"][0] <= float(whole.min()) < float(whole.max()) <= saved["target_range"][1]
        assert torch.allclose(whole, tiled, atol=0.05)
        for kind in ("source", "translated", "target", "difference"):
            assert (folder / "out" / "gallery" / kind / f"{seed}.png").exists()
    metrics = json.loads((folder / "out" / "metrics.json").read_text())
    width = saved["target_range"][1] - saved["target_range"][0]
    assert metrics["mean"]["mae"] == pytest.approx(metrics["mean"]["l1"] * width, rel=0.02)
    if suffix == ".tif":
        for name in ("out", "parts"):
            assert len(file_tags(folder / name / "6.tif").georeferencing) == len(GEO_TAGS)
    arguments = ["--checkpoint", str(runs / "tiny"), "--output", str(folder / "out"), "--existing", "keep"]
    with pytest.raises(DataError, match=r"translations made with other settings \(data\.source_range\)"):
        translate(*arguments, "data.source_range=[0,1000]")


def test_a_resumed_run_keeps_its_range_when_the_data_change(array_config: Path) -> None:
    run(array_config, "train.max_steps=2")
    before = checkpoint(array_config, 2)["config"]["data"]["target_range"]
    save_npy(array_config.parent / "pairs" / "train_B" / "0.npy", heights(0) * 100)
    run(array_config, "--accept-changed-data", *UNDECIDED)
    assert checkpoint(array_config, 4)["config"]["data"]["target_range"] == before
    with pytest.raises(CheckpointError, match=r"was trained with data\.target_range=\[-20\.0, .*, now it is \[0\.0, 1"):
        run(array_config, "data.target_range=[0,1]")


def test_a_run_of_an_earlier_version_stays_at_the_high_bytes(
    array_config: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    pairs = array_config.parent / "pairs"
    shutil.rmtree(pairs)
    for seed in range(4):
        save_image(pairs / "train_A" / f"{seed}.png", bands(seed)[3])
        save_image(pairs / "train_B" / f"{seed}.png", bands(seed)[0])
    with monkeypatch.context() as patch:  # earlier versions read every image as 8-bit RGB
        patch.setattr(training.run, "check_is_complete", lambda *_: None)
        run(array_config, *UNDECIDED, "data.source_channels=1", "run.name=whole")
        run(array_config, *UNDECIDED, "data.source_channels=1", "train.max_steps=2")
    capsys.readouterr()
    run(array_config, *UNDECIDED, "data.source_channels=1")
    assert "1 channel" not in capsys.readouterr().out
    assert_same_state(array_config, 4)
    with pytest.raises(ConfigError, match=r"data\.target_range=\[\d+,\d+\] data\.target_files=uint16\.png$"):
        run(array_config, *UNDECIDED, "data.source_channels=1", "run.name=new", "train.max_steps=2")
