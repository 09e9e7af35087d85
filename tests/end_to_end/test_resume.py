"""Stopping and going on: whatever ended a run, the next one ends with the same bits as if nothing had happened."""

import contextlib
import os
import shutil
import signal
import time
from pathlib import Path
from typing import Any

import pytest
import torch

from configs.build import build_conditioning
from inference.load import load_generator
from tests import processes
from tests.runs import (
    SPADE,
    STYLE,
    assert_equal,
    assert_resumes_exactly,
    assert_same_state,
    checkpoint,
    run,
    wait_for,
    with_slow,
)
from utils.checkpoint import FORMAT_VERSION, load_checkpoint
from utils.checkpoint_folder import checkpoint_path, list_checkpoints
from utils.errors import UserError

RESUMED = [
    ["amp.opt_level=O2", "generator.norm=batch", "train.ema_decay=0.5", "amp.dtype=float16"],
    ["amp.opt_level=O3", "train.retain_graph=false", "amp.dtype=bfloat16"],
    ["data.workers=1", "data.cache=memory", "data.augment.elastic=[0,0.1]", "data.augment.quarter_turns=true"],
    ["train.accumulation_steps=2", "train.retain_graph=false"],
    ["train.activation_checkpointing=true", "generator.spectral_norm=true", "discriminator.spectral_norm=inner"],
    [*SPADE, "generator.norm=batch", "train.batch_size=2", "train.activation_checkpointing=true"],
    [*STYLE, "amp.dtype=bfloat16", "generator.noise_channels=2", "amp.opt_level=O1"],
]
ALSO_RESUMED = [
    ["amp.opt_level=O2", "generator.spectral_norm=true", "amp.dtype=bfloat16"],
    ["amp.opt_level=O3", "amp.dtype=float16"],
    ["data.workers=2", "generator.norm=batch", "discriminator.norm=batch"],
    ["train.ema_decay=0.5", "generator.norm=batch", "generator.spectral_norm=true"],
    [*SPADE, "generator.noise_channels=3", "train.ema_decay=0.5"],
    [*SPADE, "generator.spectral_iteration=v_first", "train.activation_checkpointing=true"],
    [*SPADE, "generator.norm=batch", "train.retain_graph=false", "data.instance_edges=false"],
    [*SPADE, "amp.dtype=bfloat16", "amp.opt_level=O1"],
    [*STYLE, "train.activation_checkpointing=true", "train.accumulation_steps=2"],
    [*STYLE, "train.ema_decay=0.5", "train.discriminator_steps=2", "train.retain_graph=false"],
    [*STYLE, "amp.dtype=bfloat16", "generator.norm=batch", "amp.opt_level=O2"],
    [*STYLE, "amp.dtype=bfloat16", "data.target_channels=1", "amp.opt_level=O3"],
    [*SPADE, "amp.dtype=bfloat16", "generator.norm=batch", "amp.opt_level=O2"],
    [*SPADE, "amp.dtype=bfloat16", "train.activation_checkpointing=true", "amp.opt_level=O3"],
]


@pytest.mark.parametrize("settings", with_slow(RESUMED, ALSO_RESUMED), ids=lambda settings: settings[-1])
def test_resume_is_exact(tiny_config: Path, settings: list[str]) -> None:
    assert_resumes_exactly(tiny_config, *settings, stop=3, end=6)  # an epoch has 5 samples


def test_another_seed_gives_another_run(trained_config: Path) -> None:
    """The negative control of the tests above."""
    run(trained_config, "run.seed=1", "run.name=other")
    first, second = checkpoint(trained_config, 4), checkpoint(trained_config, 4, "other")
    with pytest.raises(AssertionError, match="stem"):
        assert_equal(first["networks"]["generator"], second["networks"]["generator"])


def test_a_finished_run_says_so_and_can_be_extended(trained_config: Path, capfd: pytest.CaptureFixture[str]) -> None:
    run(trained_config)
    assert "finished at step 4" in capfd.readouterr().out
    run(trained_config, "train.max_steps=6")
    assert "train.max_steps 4 -> 6" in capfd.readouterr().out
    assert checkpoint(trained_config, 6)["step"] == 6


@pytest.mark.parametrize("mistake", ["discriminator.n_scales=6", "train.max_steps=4"])
def test_a_run_is_set_aside_only_for_one_that_can_start(tiny_config: Path, mistake: str) -> None:
    run(tiny_config, "train.max_steps=4", "checkpoint.every_steps=2")
    folder = tiny_config.parent / "runs" / "tiny"
    resume = ["--resume", str(checkpoint_path(folder, 4))] if "max_steps" in mistake else ["--resume", "never"]
    with contextlib.suppress(UserError):
        run(tiny_config, mistake, *resume)
    assert len(list_checkpoints(folder)) == 2
    assert not folder.with_name("tiny.1").exists()


NETWORKS_AND_LOSSES = [
    ["generator.name=unet", "generator.n_downsamplings=5", "generator.dropout=true", "generator.norm=batch"],
    ["generator.upsample=residual", "generator.padding=reflect", "generator.spectral_norm=true"],
    ["discriminator.name=pixel", "discriminator.norm=batch", "discriminator.spectral_norm=true"],
    ["loss.gan_mode=wgan", "loss.gradient_penalty=10", "train.discriminator_steps=2"],
    ["features.n_channels=2", "features.n_downsamplings=1", "train.ema_decay=0.5"],
    ["train.pool_size=3", "train.retain_graph=false", "train.discriminator_steps=2"],
    ["train.freeze=[generator.stem,generator.blocks,discriminator.scales.0]"],
]
MORE_OF_THEM = [
    ["generator.name=local", "generator.n_enhancer_blocks=1", "data.synthetic.width=64"],  # as in two stages
    ["discriminator.n_scales=1", "discriminator.padding=1", "train.retain_graph=false", "loss.gan_mode=vanilla"],
    ["loss.gan_mode=hinge", "loss.r1=1", "optimizer.discriminator_learning_rate=4e-4", "optimizer.decay=cosine"],
    ["features.n_channels=2", "features.n_downsamplings=1", *SPADE],
    ["features.n_channels=1", "features.regions=labels", "features.n_downsamplings=4", "train.retain_graph=false"],
    ["train.pool_size=2", "train.batch_size=2"],
]


@pytest.mark.parametrize("settings", with_slow(NETWORKS_AND_LOSSES, MORE_OF_THEM), ids=lambda settings: settings[0])
def test_every_network_and_loss_trains_and_resumes_exactly(tiny_config: Path, settings: list[str]) -> None:
    assert_resumes_exactly(tiny_config, *settings, stop=2, end=4)


TWO_STAGES = ["generator.name=local", "data.synthetic.width=64", "generator.n_enhancers=2", "data.synthetic.height=64"]
TWO_STAGES += ["generator.n_enhancer_blocks=1", "train.freeze_global_epochs=1", "data.synthetic.train_samples=3"]


@pytest.mark.slow  # tests/reliability/test_exact_resume.py has a run of one enhancer that stops between the stages
@pytest.mark.parametrize("stop", [2, 3, 4])
def test_two_stage_training_resumes_exactly_in_either_phase(tiny_config: Path, stop: int) -> None:
    assert_resumes_exactly(tiny_config, *TWO_STAGES, stop=stop, end=5)


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


def test_the_encoder_trains_in_the_first_stage_too(tiny_config: Path) -> None:
    features = ["features.n_channels=1", "features.n_downsamplings=2"]
    run(tiny_config, *TWO_STAGES, *features, "train.max_steps=2", "checkpoint.every_steps=1")
    first, second = (checkpoint(tiny_config, step)["networks"]["generator"] for step in (1, 2))
    changed = {name for name in first if not torch.equal(first[name], second[name])}
    assert changed == {n for n in first if n.startswith(("generator.enhancers.1.", "generator.head.", "encoder."))}


@pytest.mark.parametrize("number", with_slow([signal.SIGINT], [signal.SIGTERM]))
def test_a_run_that_is_stopped_saves_itself_and_goes_on_exactly(tiny_config: Path, number: signal.Signals) -> None:
    settings = ["train.max_steps=100000", "data.workers=2", "log.every_steps=1", "log.images_every_steps=1"]
    process = processes.start(tiny_config, *settings, prepare=os.setsid)
    output = tiny_config.with_suffix(".out")
    wait_for(output)
    while "\nstep      3/" not in output.read_text():  # both loader processes have begun
        assert process.is_alive(), output.read_text()
        time.sleep(0.01)
    assert process.pid is not None
    os.killpg(process.pid, number)  # as Ctrl-C in a terminal: to the workers too
    process.join(processes.PATIENCE_S)
    assert process.exitcode == 128 + number
    (saved,) = list_checkpoints(tiny_config.parent / "runs" / "tiny")
    step = load_checkpoint(saved)["step"]
    message = f"stopped by {number.name} and saved at step {step}; the same command, without --resume, continues from "
    assert output.read_text().splitlines()[-1] == f"{message}there"
    assert "Traceback" not in output.read_text()

    run(tiny_config, f"train.max_steps={step + 3}")
    run(tiny_config, f"train.max_steps={step + 3}", "run.name=whole")
    assert_same_state(tiny_config, step + 3)


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


def test_a_file_of_1_0_0_translates() -> None:
    trained = load_generator(FORMER)
    assert trained.step == 3
    source = torch.zeros(1, build_conditioning(trained.config).channels, 16, 16)
    assert trained.generator.eval()(source).shape == (1, 3, 16, 16)
