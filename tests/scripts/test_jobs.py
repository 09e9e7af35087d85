"""The Dockerfile, the TrainJob, and scripts/slurm.sbatch with stand-ins for srun and scontrol.

A machine is a torchrun on its own loopback address.
"""

import os
import runpy
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

import train
from tests.processes import PATIENCE_S, torchrun
from tests.reliability.faults import Fault, inject
from tests.runs import assert_equal, checkpoint, without_config

ROOT = Path(__file__).parents[2]
SCRIPT = ROOT / "scripts" / "slurm.sbatch"
SCONTROL = """#!/bin/sh
case $1 in
    show) printf '127.0.0.1\\n127.0.0.2\\n' ;;
    requeue) echo "$2" >>requeued ;;
esac
"""
ENDS_AT_ONCE = """#!/bin/sh
echo "$@" >command
touch $CHECKPOINT
[ -z "$STATE" ] || echo "$STATE" >runs/mine/state.json
exit 1
"""
TWO_MACHINES = """#!/bin/sh
while [ "$1" != torchrun ]; do shift; done
PET_LOCAL_ADDR=127.0.0.1 "$@" &
PET_LOCAL_ADDR=127.0.0.2 "$@" &
wait
"""
LOST = '{"state": "lost", "step": 7, "signal": null, "reason": "RuntimeError: Connection closed by peer"}'


class Slurm:
    """A folder for submitting jobs, with stand-ins for the programs that the script calls."""

    def __init__(self, folder: Path, srun: str, **environment: str) -> None:
        self.folder = folder
        programs = folder / "programs"
        programs.mkdir()
        for name, text in {"srun": srun, "scontrol": SCONTROL}.items():
            (programs / name).write_text(text)
            (programs / name).chmod(0o755)
        paths = [str(programs), str(Path(sys.executable).parent), os.environ["PATH"]]
        self.environment = os.environ | {"PATH": os.pathsep.join(paths), "SLURM_NNODES": "2", "OMP_NUM_THREADS": "1"}
        self.environment |= {"SLURM_JOB_NODELIST": "node[1-2]", **environment}

    def run(self, job: int, *arguments: str, **environment: str) -> tuple[int, bool]:
        """Run the script as the batch script of a job; return its exit code, and whether it has requeued the job."""
        requeued = self.folder / "requeued"
        requeued.unlink(missing_ok=True)
        command = ["bash", str(SCRIPT), "runs/mine", *arguments]
        environment = self.environment | {"SLURM_JOB_ID": str(job)} | environment
        code = subprocess.run(command, cwd=self.folder, env=environment, timeout=PATIENCE_S).returncode
        assert not requeued.exists() or requeued.read_text() == f"{job}\n"
        return code, requeued.exists()


@pytest.mark.row(4)
@pytest.mark.parametrize(
    ("state", "newest", "expected"),
    [
        ('{"state": "finished", "step": 9, "signal": null, "reason": null}', 9, (0, False)),
        ('{"state": "stopped", "step": 5, "signal": "SIGUSR1", "reason": null}', 5, (0, True)),
        ('{"state": "stopped", "step": 9, "signal": "SIGTERM", "reason": null}', 9, (1, False)),  # scancel
        (LOST, 10, (0, True)),
        (LOST, 5, (1, False)),  # it would be lost at the same step for ever
        (LOST.replace("lost", "running"), 10, (0, True)),
        ("", 10, (1, False)),
    ],
)
def test_a_job_is_requeued_where_its_run_can_go_on(
    tmp_path: Path, state: str, newest: int, expected: tuple[int, bool]
) -> None:
    checkpoints = tmp_path / "runs" / "mine"
    checkpoints.mkdir(parents=True)
    (checkpoints / "checkpoint-00000005.pt").touch()
    (checkpoints / "state.json").write_text('{"state": "finished"}')  # left by the session before
    slurm = Slurm(tmp_path, ENDS_AT_ONCE, STATE=state, CHECKPOINT=str(checkpoints / f"checkpoint-{newest:08d}.pt"))
    assert slurm.run(123456, "--config", "a b.yaml", SLURM_CPUS_PER_TASK="4", SLURM_RESTART_COUNT="1") == expected
    command = (tmp_path / "command").read_text()
    assert command.startswith("--kill-on-bad-exit=0 --cpus-per-task=4 torchrun --nnodes 2 ")
    assert "--rdzv-endpoint 127.0.0.1:23456 --rdzv-id 123456 " in command
    assert command.endswith(" train.py --config a b.yaml --resume auto run.root=runs run.name=mine\n")


class OfTheMachine(Fault):
    """A signal to the machine's torchrun, as SLURM sends it; SIGKILL to its process too: the machine is lost."""

    def strike(self) -> None:
        os.kill(os.getppid(), signal.Signals[self.how])
        if self.how == "SIGKILL":
            super().strike()


def train_with_faults() -> None:
    """Stand for train.py: the first session reaches its time limit, and the second loses the second machine."""
    session = int(os.environ.get("SLURM_RESTART_COUNT", "0"))
    if session < 2:
        how, call, ranks = (("SIGUSR1", 3, (0, 1)), ("SIGKILL", 4, (1,)))[session]
        for rank in ranks:
            inject(OfTheMachine("forward", how, call=call, rank=rank))
    runpy.run_path(str(ROOT / "train.py"), run_name="__main__")


@pytest.mark.row(6)
@pytest.mark.slow
def test_a_job_that_is_requeued_twice_ends_with_the_same_bits(tiny_config: Path) -> None:
    settings = ["train.max_steps=8", "checkpoint.every_steps=5", "data.synthetic_samples=[12,2,3]"]
    with torchrun(tiny_config, *settings, "run.name=whole") as undisturbed:
        assert undisturbed.wait_for_all() == 0, undisturbed.said()
    folder = tiny_config.parent
    program = f"import sys\nsys.path[0] = {str(ROOT)!r}\nimport {__name__} as test\n"
    (folder / "train.py").write_text(f"{program}test.{train_with_faults.__name__}()\n")
    slurm = Slurm(folder, TWO_MACHINES, PET_NPROC_PER_NODE="1")
    job = os.getpid()  # another one for each test process, and with it the port
    for session, (ended, is_requeued) in enumerate((("SIGUSR1", True), ("lost", True), ("finished", False))):
        count = {"SLURM_RESTART_COUNT": str(session)} if session else {}
        assert slurm.run(job, "--config", str(tiny_config), *settings, **count) == (0, is_requeued)
        assert f'"{ended}"' in (folder / "runs/mine/state.json").read_text()
    ends = (without_config(checkpoint(tiny_config, 8, name)) for name in ("mine", "whole"))
    assert_equal(next(ends), next(ends))


def test_the_image_is_made_of_files_that_are_here() -> None:
    lines = (ROOT / "Dockerfile").read_text().splitlines()
    copied = [word for line in lines if line.startswith("COPY") for word in line.split()[1:-1]]
    assert "pyproject.toml" in copied
    assert all((ROOT / name).exists() for name in copied)
    left_out = (ROOT / ".dockerignore").read_text().splitlines()[1:]
    assert not {"configs", "training", "train.py", "test.py"} & set(left_out)


def test_the_train_job_trains(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    trainer = yaml.safe_load((ROOT / "scripts" / "kubeflow_trainjob.yaml").read_text())["spec"]["trainer"]
    words = trainer["command"] + trainer["args"]
    assert words[:2] == ["torchrun", "train.py"]
    monkeypatch.chdir(ROOT)
    train.main([*words[2:], "--print-config"])
    assert "name: mine" in capsys.readouterr().out
