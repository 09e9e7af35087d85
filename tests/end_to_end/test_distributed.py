"""Two processes against one on the joint batch."""

import json
import os
import sys
from contextlib import suppress
from functools import partial
from pathlib import Path

import pytest
import torch
import torch.distributed as dist
from torch import Tensor

import train
from configs.load import load_config
from tests.processes import PATIENCE_S, torchrun, train_two
from tests.runs import OASIS, SPADE, assert_equal, checkpoint, with_slow, without_config
from training import launch
from training.run_folder import STATE_FILE
from utils.checkpoint import load_checkpoint
from utils.checkpoint_folder import checkpoint_path
from utils.distributed import World, joined_world

STEPS = 3
TO_STEP_3 = ["train.max_steps=3", "data.synthetic.train_samples=12"]
TWO_EPOCHS = ["data.synthetic.train_samples=4"]  # one of two joint batches, and the beginning of another


def distance(first: dict[str, Tensor], second: dict[str, Tensor]) -> float:
    return torch.stack([(first[key] - second[key]).norm() for key in first]).norm().item()


def weights(config: Path, name: str, trainable: str) -> dict[str, Tensor]:
    state = load_checkpoint(checkpoint_path(config.parent / "runs" / name, STEPS))
    return dict(state["networks"][trainable])


@pytest.mark.parametrize(
    "settings",
    with_slow(
        [[]],
        [
            # with the default gain the activations are so small that the norms turn rounding noise into gradients
            [*SPADE, "init.gain=0.1", "train.activation_checkpointing=true"],
            ["train.retain_graph=false", "train.accumulation_steps=2"],
            ["generator.name=local", "generator.n_enhancer_blocks=1", "train.freeze_global_epochs=1", *TWO_EPOCHS],
            ["features.n_channels=2", "features.n_downsamplings=2", "init.gain=0.1"],  # as for SPADE
            [*OASIS, "generator.noise_channels=0", "loss.labelmix=0", "loss.class_balance=false"],
        ],
    ),
    ids=["kept graph", "spade", "sequence", "two stages", "features", "oasis"],
)
def test_two_processes_train_like_one_on_the_joint_batch(tiny_config: Path, settings: list[str]) -> None:
    common = [f"train.max_steps={STEPS}", "data.synthetic.train_samples=12", "optimizer.learning_rate=1e-3"]
    common += ["data.synthetic.height=64", "data.synthetic.width=64", *settings]
    train_two(tiny_config, [*common, "run.name=two"])
    train.main(["--config", str(tiny_config), *common, "run.name=one", "train.batch_size=2"])
    train.main(["--config", str(tiny_config), *common, "run.name=half", "train.batch_size=1"])
    for trainable in ("generator", "discriminator"):
        one, two, half = (weights(tiny_config, name, trainable) for name in ("one", "two", "half"))
        # Adam turns rounding noise in a gradient near zero into a step, so single weights cannot be compared; half
        # the batch, which is what a rank alone would see, shows how far apart different gradients lead.
        assert distance(two, one) < 0.05 * distance(half, one)


@pytest.mark.slow
def test_two_processes_recompute_batch_norm_to_the_same_bits(tiny_config: Path) -> None:
    """On GPUs the norms are SyncBatchNorm, which torch does not have on a CPU."""
    common = [f"train.max_steps={STEPS}", *SPADE, "generator.norm=batch", "data.synthetic.train_samples=12"]
    recomputing = ([f"run.name={does}", f"train.activation_checkpointing={does}"] for does in ("false", "true"))
    train_two(tiny_config, *([*common, *settings] for settings in recomputing))
    plain, recomputed = (weights(tiny_config, name, "generator") for name in ("false", "true"))
    assert_equal(recomputed, plain)


def test_two_processes_with_an_average_of_batch_norm_resume_exactly(tiny_config: Path) -> None:
    common = ["generator.norm=batch", "train.ema_decay=0.5", "data.synthetic.train_samples=12", "checkpoint.best=l1"]
    common += ["data.workers=2"]
    runs = ((STEPS, "whole"), (1, "parts"), (STEPS, "parts"))
    train_two(tiny_config, *([*common, f"train.max_steps={steps}", f"run.name={name}"] for steps, name in runs))
    whole, parts = (checkpoint(tiny_config, STEPS, name) for name in ("whole", "parts"))
    assert_equal(without_config(parts), without_config(whole))


def test_a_run_of_two_processes_goes_on_with_one(tiny_config: Path) -> None:
    train_two(tiny_config, TO_STEP_3)
    train.main(["--config", str(tiny_config), "train.max_steps=5", "data.synthetic.train_samples=12"])
    state = load_checkpoint(checkpoint_path(tiny_config.parent / "runs" / "tiny", 5))
    assert state["samples_into_epoch"] == 3 * 2 + 2 * 1


def end_early_and_resume(config: Path) -> None:
    """Let callbacks of the main process, which alone is called, end the run; go on in the same processes."""
    launch.train(load_config(config, [*TO_STEP_3, "run.name=whole"]))
    settings = load_config(config, [*TO_STEP_3, "log.every_steps=1", "run.name=parts"])
    for callback in (lambda step, _: step == 1, lambda *_: sys.exit("enough"), None):
        with suppress(SystemExit):
            launch.train(settings, on_report=callback)
        if os.environ["RANK"] == "0":
            sys.stdout.write((config.parent / "runs" / "parts" / STATE_FILE).read_text())
    sys.exit(0)


def test_two_processes_end_early_together_and_resume_exactly(tiny_config: Path) -> None:
    with torchrun(tiny_config, prepare=partial(end_early_and_resume, tiny_config)) as processes:
        assert processes.wait_for_all() == 0, processes.said()
    reason = "on_report returned True"
    assert f"ended early, at step 1 of 3: {reason}" in processes.said()
    for step, state, why in ((1, "finished", reason), (2, "failed", "SystemExit: enough"), (3, "finished", None)):
        assert json.dumps({"state": state, "step": step, "signal": None, "reason": why}) in processes.said()
    whole, parts = (checkpoint(tiny_config, STEPS, name) for name in ("whole", "parts"))
    assert_equal(without_config(parts), without_config(whole))


def leave_the_world() -> None:
    """Join the other process and leave it, once in peace and once by Ctrl-C; print the threads that are left."""
    for is_interrupted in (False, True):
        with suppress(KeyboardInterrupt), joined_world("cpu", PATIENCE_S) as world:
            train_a_step(world)
            if is_interrupted:
                raise KeyboardInterrupt
        threads = [thread.read_text() for thread in Path("/proc/self/task").glob("*/comm")]
        sys.stdout.write(f"threads of gloo: {sum('gloo' in name for name in threads)}\n")
    sys.exit(0)


def train_a_step(world: World) -> None:
    """The network is in a cycle with its frame, which a garbage collection alone ends."""
    network = world.wrap(torch.nn.Linear(2, 2))
    network.itself = network
    network(torch.zeros(1, 2)).sum().backward()
    dist.all_reduce(torch.zeros(1))


@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="threads are listed by Linux")
def test_no_thread_of_the_process_group_is_left_to_abort_the_interpreters_end(tiny_config: Path) -> None:
    with torchrun(tiny_config, prepare=leave_the_world) as processes:
        assert processes.wait_for_all() == 0, processes.said()
        assert processes.said().count("threads of gloo: 0") == 4, processes.said()
