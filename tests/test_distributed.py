"""Two real processes, started as a user starts them, against one process on the joint batch."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from torch import Tensor

import train
from utils.checkpoint import load_checkpoint
from utils.checkpoint_folder import checkpoint_path

TORCHRUN = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
STEPS = 3
TWO_EPOCHS = ["data.synthetic.train_samples=4"]  # one of two joint batches, and the beginning of another


def launch(config: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*TORCHRUN, "train.py", "--config", str(config), *arguments],
        env=os.environ | {"OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=120,
    )


def run_with_torchrun(config: Path, *arguments: str) -> str:
    result = launch(config, *arguments)
    assert result.returncode == 0, result.stderr
    return result.stdout


def distance(first: dict[str, Tensor], second: dict[str, Tensor]) -> float:
    return torch.stack([(first[key] - second[key]).norm() for key in first]).norm().item()


def weights(config: Path, name: str, player: str) -> dict[str, Tensor]:
    state = load_checkpoint(checkpoint_path(config.parent / "runs" / name, STEPS))
    return dict(state[player]["network"])


@pytest.mark.parametrize(
    "settings",
    [
        [],
        ["train.retain_graph=false", "train.accumulation_steps=2"],
        ["generator.name=local", "generator.n_enhancer_blocks=1", "train.freeze_global_epochs=1", *TWO_EPOCHS],
        ["features.n_channels=2", "features.n_downsamplings=2"],
    ],
    ids=["kept graph", "sequence", "two stages", "features"],
)
def test_two_processes_train_like_one_on_the_joint_batch(tiny_config: Path, settings: list[str]) -> None:
    common = [f"train.max_steps={STEPS}", "data.synthetic.train_samples=12", "optimizer.learning_rate=1e-3"]
    common += ["data.synthetic.height=64", "data.synthetic.width=64", *settings]
    output = run_with_torchrun(tiny_config, *common, "run.name=two")
    assert output.count("saved ") == 1  # rank 0 alone writes
    assert "cpu, 2 processes" in output
    train.main(["--config", str(tiny_config), *common, "run.name=one", "train.batch_size=2"])
    train.main(["--config", str(tiny_config), *common, "run.name=half", "train.batch_size=1"])
    for player in ("generator", "discriminator"):
        one, two, half = (weights(tiny_config, name, player) for name in ("one", "two", "half"))
        # Adam turns rounding noise in a gradient near zero into a step, so single weights cannot be compared; half
        # the batch, which is what a rank alone would see, tells how far apart different gradients lead.
        assert distance(two, one) < 0.05 * distance(half, one)


def test_a_run_of_two_processes_goes_on_with_one(tiny_config: Path) -> None:
    run_with_torchrun(tiny_config, "train.max_steps=3", "data.synthetic.train_samples=12")
    train.main(["--config", str(tiny_config), "train.max_steps=5", "data.synthetic.train_samples=12"])
    state = load_checkpoint(checkpoint_path(tiny_config.parent / "runs" / "tiny", 5))
    assert state["samples_into_epoch"] == 3 * 2 + 2 * 1


LEAVES_THE_WORLD = """
import os, sys
import torch
import torch.distributed as dist
from training import launch
from utils.distributed import joined_world

class Run:
    def __init__(self, world):
        self.network, self.itself = world.wrap(torch.nn.Linear(2, 2)), self
        self.network(torch.zeros(1, 2)).sum().backward()
        dist.all_reduce(torch.zeros(1))

def play(world):
    run = Run(world)
    if "interrupted" in sys.argv:
        raise KeyboardInterrupt

try:
    with joined_world("cpu", 60) as world:
        play(world)
except KeyboardInterrupt:
    print("interrupted")
threads = [open(f"/proc/self/task/{thread}/comm").read() for thread in os.listdir("/proc/self/task")]
print("threads of gloo:", sum("gloo" in name for name in threads))
"""


@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="threads are listed by Linux")
@pytest.mark.parametrize("end", ["finished", "interrupted"])
def test_no_thread_of_the_process_group_is_left_to_abort_the_interpreters_end(tmp_path: Path, end: str) -> None:
    script = tmp_path / "script.py"
    script.write_text(LEAVES_THE_WORLD)
    result = subprocess.run(
        [*TORCHRUN, str(script), end],
        env=os.environ | {"OMP_NUM_THREADS": "1", "PYTHONPATH": str(Path.cwd())},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert result.stdout.count("threads of gloo: 0") == 2, result.stdout + result.stderr
    assert result.stdout.count("interrupted") == (2 if end == "interrupted" else 0)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["train.batch_size=3"], "the train split has 5 samples, fewer than train.batch_size x processes = 6"),
        (["data.validation_split=valid"], "no split 'valid'"),  # only the main process reads that split
    ],
    ids=["on both", "on one"],
)
def test_a_mistake_ends_every_process_without_tracebacks(tiny_config: Path, arguments: list[str], message: str) -> None:
    result = launch(tiny_config, *arguments)
    assert result.returncode != 0
    assert message in result.stderr
    assert 'train.py", line' not in result.stderr
