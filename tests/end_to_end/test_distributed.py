"""Two processes against one on the joint batch."""

import json
import os
import shutil
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
from tests.conftest import write_tiny_config
from tests.processes import PATIENCE_S, torchrun, train_two
from tests.runs import assert_same_state, checkpoint
from training import launch
from training.run_folder import STATE_FILE
from utils.distributed import World, joined_world

STEPS = 3
TO_STEP_3 = ["train.max_steps=3", "data.synthetic_samples=[12,2,3]"]


def distance(first: dict[str, Tensor], second: dict[str, Tensor]) -> float:
    return torch.stack([(first[key] - second[key]).norm() for key in first]).norm().item()


def weights(config: Path, name: str, trainable: str) -> dict[str, Tensor]:
    return dict(checkpoint(config, STEPS, name)["networks"][trainable])


@pytest.fixture(scope="module")
def of_two(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The configuration of runs of the same two processes, one after the other; only to be read."""
    config = write_tiny_config(tmp_path_factory.mktemp("of_two"))
    averaged = ["generator.norm=batch", "train.ema_decay=0.5", "data.synthetic_samples=[12,2,3]", "checkpoint.best=l1"]
    runs = [[*averaged, "data.workers=2", f"train.max_steps={n}", f"run.name={name}"] for n, name in AVERAGED]
    train_two(config, [*LIKE_ONE, "run.name=two"], *runs, TO_STEP_3)
    return config


AVERAGED = [(STEPS, "whole"), (1, "parts"), (STEPS, "parts")]
LIKE_ONE = [f"train.max_steps={STEPS}", "data.synthetic_samples=[12,2,3]", "optimizer.learning_rate=1e-3"]
LIKE_ONE += ["data.synthetic_size=[64,64]", "loss.shift_reach=4"]


def test_two_processes_train_like_one_on_the_joint_batch(of_two: Path) -> None:
    config = of_two
    train.main(["--config", str(config), *LIKE_ONE, "run.name=one", "train.batch_size=2"])
    train.main(["--config", str(config), *LIKE_ONE, "run.name=half", "train.batch_size=1"])
    for trainable in ("generator", "discriminator"):
        one, two, half = (weights(config, name, trainable) for name in ("one", "two", "half"))
        # Adam turns rounding noise in a gradient near zero into a step, so single weights cannot be compared; half
        # the batch, which is what a rank alone would see, shows how far apart different gradients lead.
        assert distance(two, one) < 0.05 * distance(half, one)


def test_two_processes_with_an_average_of_batch_norm_resume_exactly(of_two: Path) -> None:
    assert_same_state(of_two, STEPS, "whole", "parts")


def test_a_run_of_two_processes_goes_on_with_one(of_two: Path, tiny_config: Path) -> None:
    shutil.copytree(of_two.parent / "runs" / "tiny", tiny_config.parent / "runs" / "tiny")
    train.main(["--config", str(tiny_config), "train.max_steps=5", "data.synthetic_samples=[12,2,3]"])
    assert checkpoint(tiny_config, 5)["samples_into_epoch"] == 3 * 2 + 2 * 1


def end_early_and_resume(config: Path) -> None:
    """Let callbacks end the run; go on in the same processes. Only the main process calls them."""
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
    assert_same_state(tiny_config, STEPS, "whole", "parts")


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
