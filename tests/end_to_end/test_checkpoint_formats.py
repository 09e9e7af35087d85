"""Checkpoints of every format that the application has had are resumed and translated with."""

import shutil
from pathlib import Path
from typing import Any

import pytest
import torch

from configs.build import build_conditioning
from inference.load import load_generator
from tests.runs import run
from utils.checkpoint import FORMAT_VERSION, load_checkpoint
from utils.checkpoint_folder import checkpoint_path

FOLDER = Path(__file__).parents[1] / "checkpoints"
FILES = sorted(FOLDER.glob("version_*.pt"))


def go_on(file: Path, tmp_path: Path) -> dict[str, Any]:
    """The run of a file, copied to tmp_path, after a step at learning rate 0."""
    folder = tmp_path / "runs" / "tiny"
    folder.mkdir(parents=True)
    shutil.copy(file, checkpoint_path(folder, 3))
    config = tmp_path / "config.yaml"
    config.write_text((FOLDER / "config.yaml").read_text())
    run(config, f"run.root={tmp_path / 'runs'}", "train.max_steps=4", "optimizer.learning_rate=0")
    return load_checkpoint(checkpoint_path(folder, 4))


def test_there_is_a_checkpoint_of_every_format() -> None:
    assert [path.stem for path in FILES] == [f"version_{number}" for number in range(1, FORMAT_VERSION + 1)]


@pytest.mark.parametrize("file", FILES, ids=lambda path: path.stem)
def test_a_run_goes_on_from_it(file: Path, tmp_path: Path) -> None:
    before, after = load_checkpoint(file), go_on(file, tmp_path)
    assert after["step"] == 4
    for trainable in ("generator", "discriminator"):
        weights = before["networks"][trainable]
        trained = [name for name in weights if "running" not in name and "num_batches" not in name]
        for name in trained:
            assert torch.equal(after["networks"][trainable][name], weights[name]), name
        states = before["optimizers"][trainable]["moments"][trainable]
        by_name = dict(zip(trained, states["state"].values(), strict=True)) if "state" in states else states
        for name, state in by_name.items():
            assert state["step"] == 3
            moment = after["optimizers"][trainable]["moments"][trainable][name]["exp_avg_sq"]
            assert after["optimizers"][trainable]["moments"][trainable][name]["step"] == 4
            assert moment.shape == state["exp_avg_sq"].shape
            assert (moment >= 0.999 * state["exp_avg_sq"]).all(), name  # beta2 of what was there, and more


@pytest.mark.parametrize("file", FILES, ids=lambda path: path.stem)
def test_it_translates(file: Path) -> None:
    trained = load_generator(file)
    assert trained.step == 3
    source = torch.zeros(1, build_conditioning(trained.config).channels, 16, 16)
    assert trained.generator.eval()(source).shape == (1, 3, 16, 16)
