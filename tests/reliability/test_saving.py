"""Runs that are killed while they save, and disks that fail: rows 1 to 3."""

import os
import random
import signal
import time
from collections.abc import Callable
from errno import EIO, ENOSPC
from functools import partial
from io import BytesIO
from itertools import count
from pathlib import Path
from typing import IO, Any

import pytest
import torch

from tests import processes
from tests.reliability.faults import failing, kill_at, strike_at, throw
from tests.runs import assert_equal, checkpoint, run, uninterrupted, wait_until, without_config
from training import run_folder
from training.report import sinks
from utils import files
from utils.checkpoint import manifest_path
from utils.checkpoint_folder import checkpoint_path, latest_valid, list_checkpoints

EVERY_STEP = ["checkpoint.every_steps=1", "checkpoint.keep=2", "log.images_every_steps=1000", "log.every_steps=1000"]


def newest_step(folder: Path) -> int:
    found = latest_valid(folder)
    assert found is not None
    assert not found.damaged
    return int(found.state["step"])


def goes_on_to(config: Path, step: int, expected: dict[str, Any]) -> None:
    run(config, *EVERY_STEP, f"train.max_steps={step}")
    assert_equal(without_config(checkpoint(config, step)), expected)
    assert not list((config.parent / "runs" / "tiny").glob(".checkpoint*"))  # swept


@pytest.mark.row(1)
@pytest.mark.parametrize("n_kills", [2, pytest.param(200, marks=pytest.mark.slow)])
def test_kills_while_saving(tiny_config: Path, record_property: Callable[[str, object], None], n_kills: int) -> None:
    record_property("cases", n_kills)
    folder, rng, step = tiny_config.parent / "runs" / "tiny", random.Random(0), 0
    for _ in range(n_kills):
        process = processes.start(tiny_config, *EVERY_STEP, "train.max_steps=1000000")
        wait_until(lambda: list_checkpoints(folder)[-1:] > [checkpoint_path(folder, step)])  # noqa: B023
        time.sleep(rng.uniform(0, 0.05))
        process.kill()
        process.join()
        assert process.exitcode == -signal.SIGKILL
        assert newest_step(folder) > step
        step = newest_step(folder)
    run(tiny_config, *EVERY_STEP, f"train.max_steps={step + 3}", "run.name=whole")
    goes_on_to(tiny_config, step + 3, without_config(checkpoint(tiny_config, step + 3, "whole")))


def struck_save(nth: int, strike: Callable[[], object]) -> Callable[[object, IO[bytes]], None]:
    """`torch.save`, whose nth call, from 1, strikes when half of the file is written."""
    save, numbers = torch.save, count(1)

    def half(content: object, file: IO[bytes]) -> None:
        if next(numbers) == nth:
            save(content, buffer := BytesIO())
            file.write(buffer.getbuffer()[: len(buffer.getbuffer()) // 2])
            file.flush()
            strike()
        save(content, file)

    return half


def die_when_half_is_written() -> None:
    torch.save = struck_save(3, partial(os.kill, os.getpid(), signal.SIGKILL))  # type: ignore[assignment]


POINTS: dict[str, Callable[[], None]] = {
    "50 % written": die_when_half_is_written,
    "before fsync": partial(kill_at, "written", ".pt", 3),
    "before rename": partial(kill_at, "synced", ".pt", 3),
    "before the folder's fsync": partial(kill_at, "renamed", ".pt", 3),
    "between data and manifest": partial(kill_at, "written", ".json", 3),
    "before the manifest's rename": partial(kill_at, "synced", ".json", 3),
    "before retention": partial(kill_at, "renamed", ".json", 3),
    "in retention": partial(kill_at, "unlisted", ".pt", 1),
}
SHORT = {"50 % written", "between data and manifest"}


@pytest.mark.row(2)
@pytest.mark.parametrize(
    "point", [pytest.param(point, marks=[pytest.mark.slow] * (point not in SHORT)) for point in POINTS]
)
def test_a_kill_at_a_point_of_saving(tiny_config: Path, point: str) -> None:
    process = processes.start(tiny_config, *EVERY_STEP, "train.max_steps=1000000", prepare=POINTS[point])
    process.join(processes.PATIENCE_S)
    assert process.exitcode == -signal.SIGKILL, tiny_config.with_suffix(".out").read_text()
    step = newest_step(tiny_config.parent / "runs" / "tiny")
    is_saved = point not in ("50 % written", "before fsync", "before rename")
    assert step == (3 if is_saved else 2)
    goes_on_to(tiny_config, 6, uninterrupted())


@pytest.mark.row(3)
@pytest.mark.parametrize(("place", "errno"), [("write", ENOSPC), ("fsync", EIO), ("rename", EIO)])
def test_a_disk_that_fails_once_costs_nothing(
    tiny_config: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], place: str, errno: int
) -> None:
    run(tiny_config, "train.max_steps=4", "checkpoint.every_steps=4")
    fail = failing(lambda: None, [1], errno)
    if place == "write":
        monkeypatch.setattr(torch, "save", struck_save(1, fail))
    else:  # the system call after this point fails
        instant = {"fsync": "written", "rename": "synced"}[place]
        monkeypatch.setattr(files, "fault_point", strike_at(instant, ".pt", 1, fail))
    run(tiny_config, "train.max_steps=8", "checkpoint.every_steps=2")
    out = capfd.readouterr().out
    path = checkpoint_path(tiny_config.parent / "runs" / "tiny", 6)
    texts = [f"not saved: [Errno {errno}] {os.strerror(errno)} (", "bytes are free): ", str(path)]
    texts += ["a checkpoint takes about ", "training continues and tries again at step 7"]
    assert [text for text in texts if text not in out] == []
    assert not path.exists()
    assert [checkpoint(tiny_config, step)["step"] for step in (4, 7)] == [4, 7]
    assert manifest_path(checkpoint_path(path.parent, 8)).is_file()
    assert not list(path.parent.glob(".checkpoint*"))


@pytest.mark.row(3)
def test_what_is_written_beside_does_not_end_the_run(
    tiny_config: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    opened = Path.open

    def full(path: Path, *arguments: Any, **options: Any) -> Any:
        if (path.name, arguments) == ("metrics.jsonl", ("a",)):
            raise OSError(28, "No space left on device")
        return opened(path, *arguments, **options)

    monkeypatch.setattr(Path, "open", full)
    for owner, name in ((sinks, "write_png"), (run_folder, "config_to_yaml")):
        monkeypatch.setattr(owner, name, lambda *_, **__: throw(OSError(28, "No space left on device")))
    run(tiny_config)
    out = capfd.readouterr().out
    assert out.count("metrics.jsonl: No space left on device") == 1
    assert out.count("No space left on device") == 3
    assert checkpoint(tiny_config, 4)["step"] == 4
