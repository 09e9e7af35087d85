"""Stopping and going on, stages of a training, and files of earlier versions."""

import shutil
from pathlib import Path
from typing import Any

import pytest
import torch

from tests.runs import checkpoint, run
from utils.checkpoint import FORMAT_VERSION, load_checkpoint
from utils.checkpoint_folder import checkpoint_path, list_checkpoints
from utils.errors import UserError


def test_a_run_is_set_aside_only_for_one_that_can_start(trained_config: Path) -> None:
    folder = trained_config.parent / "runs" / "tiny"
    with pytest.raises(UserError):
        run(trained_config, "discriminator.n_scales=6", "--resume", "never")
    run(trained_config, "--resume", str(checkpoint_path(folder, 4)))
    assert len(list_checkpoints(folder)) == 1
    assert not folder.with_name("tiny.1").exists()


TWO_STAGES = ["generator.name=local", "data.synthetic_size=[64,64]", "generator.n_enhancers=2"]
TWO_STAGES += ["generator.n_enhancer_blocks=1", "train.freeze_global_epochs=1", "data.synthetic_samples=[3,2,3]"]


def test_only_the_finest_enhancer_trains_in_the_first_stage_and_all_in_the_second(tiny_config: Path) -> None:
    run(tiny_config, *TWO_STAGES, "train.max_steps=5", "checkpoint.every_steps=1", "checkpoint.keep=0")
    states = [checkpoint(tiny_config, step) for step in (1, 3, 5)]
    weights = [state["networks"]["generator"] for state in states]
    moments = [state["optimizers"]["generator"]["moments"]["generator"] for state in states]
    in_first = {name for name in weights[0] if not torch.equal(weights[0][name], weights[1][name])}
    assert in_first == {name for name in weights[0] if name.startswith(("enhancers.1.", "head."))}
    assert moments[1].keys() == in_first  # nothing was computed for the others
    assert all(not torch.equal(weights[1][name], weights[2][name]) for name in weights[0])
    assert moments[2]["trunk.stem.1.weight"]["step"] == 2
    assert moments[2]["head.1.weight"]["step"] == 5


FOLDER = Path(__file__).parents[1] / "checkpoints"
FORMER = FOLDER / f"version_{FORMAT_VERSION}.pt"


def go_on(tmp_path: Path) -> dict[str, Any]:
    """The run of the file, copied to tmp_path, after a step at learning rate 0."""
    folder = tmp_path / "runs" / "tiny"
    folder.mkdir(parents=True)
    shutil.copy(FORMER, checkpoint_path(folder, 3))
    config = tmp_path / "config.yaml"
    config.write_text((FOLDER / "config.yaml").read_text())
    run(config, f"run.root={tmp_path / 'runs'}", "train.max_steps=4", "optimizer.learning_rate=0")
    return load_checkpoint(checkpoint_path(folder, 4))


def test_a_run_goes_on_from_a_file_of_1_0_0(tmp_path: Path) -> None:
    before, after = load_checkpoint(FORMER), go_on(tmp_path)
    assert after["step"] == 4
    for trainable in ("generator", "discriminator"):
        weights = before["networks"][trainable]
        trained = [name for name in weights if "running" not in name and "num_batches" not in name]
        for name in trained:
            assert torch.equal(after["networks"][trainable][name], weights[name]), name
        states = before["optimizers"][trainable]["moments"][trainable]
        for name, state in states.items():
            assert state["step"] == 3
            moment = after["optimizers"][trainable]["moments"][trainable][name]["exp_avg_sq"]
            assert after["optimizers"][trainable]["moments"][trainable][name]["step"] == 4
            assert moment.shape == state["exp_avg_sq"].shape
            assert (moment >= 0.999 * state["exp_avg_sq"]).all(), name  # beta2 of what was there, and more
