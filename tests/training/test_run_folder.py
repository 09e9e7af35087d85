"""The folder of a run: its lock, an earlier run there, checkpoints, and the space that they need."""

import shutil
from collections import namedtuple
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
import torch

from configs.schema import Config
from configs.schema.run import CheckpointConfig
from tests.runs import built, run
from training import run_folder
from training.run import Training
from training.run_folder import CheckpointManager, check_space, prepare_folder, run_lock
from training.validation import BEST, BestScore
from utils.checkpoint_folder import list_checkpoints
from utils.distributed import World
from utils.errors import ConfigError, UserError

Disk = namedtuple("Disk", "total used free")


def test_earlier_run_is_archived_and_other_files_are_an_error(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    resumed, new = (SimpleNamespace(config=Config(), folder=folder, continues=continues) for continues in (True, False))
    for number in (1, 2):
        prepare_folder(cast("Training", resumed), [])
        (folder / "state.json").write_text(str(number))
        prepare_folder(cast("Training", new), [])
        assert (tmp_path / f"run.{number}" / "state.json").read_text() == str(number)
        assert [path.name for path in folder.iterdir()] == ["config.yaml"]
    (folder / "config.yaml").rename(folder / "notes.txt")
    with pytest.raises(ConfigError, match=r"run\.root, run\.name: .*not belong to a run"):
        prepare_folder(cast("Training", new), [])


def test_one_process_trains_in_a_folder_at_a_time(tmp_path: Path) -> None:
    other = run_lock(tmp_path / "other")
    with run_lock(tmp_path / "run"), other, pytest.raises(UserError), run_lock(tmp_path / "run"):
        pass


def manager(folder: Path, *, every_steps: int = 20, keep: int = 0) -> CheckpointManager:
    training = SimpleNamespace(
        config=SimpleNamespace(checkpoint=CheckpointConfig(every_steps=every_steps, keep=keep)),
        world=World(0, 1, torch.device("cpu")),
        folder=folder,
        saved_step=0,
        best=BestScore("l1"),
        n_bytes=8,
        estimate_statistics=lambda: None,
        process_state=lambda: {"cpu": torch.get_rng_state()},
        state_dict=lambda processes: {"random_states": processes},
    )
    return CheckpointManager(cast(Training, training))


def fail(monkeypatch: pytest.MonkeyPatch, n_times: int) -> None:
    """Let the next `n_times` saves fail."""
    calls, original = list[int](), run_folder.save_checkpoint

    def save(path: Path, state: dict[str, Any]) -> None:
        calls.append(len(calls))
        if len(calls) <= n_times:
            raise OSError(28, "No space left on device", str(path))
        original(path, state)

    monkeypatch.setattr(run_folder, "save_checkpoint", save)
    monkeypatch.setattr(run_folder, "RETRY_S", 0.0)


def steps(folder: Path) -> list[int]:
    return [int(path.stem.partition("-")[2]) for path in list_checkpoints(folder)]


def test_failed_save_is_tried_again_and_success_resets_the_count(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    checkpoints = manager(tmp_path)
    fail(monkeypatch, 2)
    for step in range(1, 41):
        checkpoints.save_if_due(step)
    assert steps(tmp_path) == [24, 40]  # after 20 and 22, a tenth of the steps apart
    fail(monkeypatch, 2)
    for step in range(41, 65):
        checkpoints.save_if_due(step)
    assert steps(tmp_path) == [24, 40, 64]


def test_the_last_save_has_three_tries(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fail(monkeypatch, 3)
    with pytest.raises(OSError, match="No space left"):
        manager(tmp_path).save_with_retries(5)
    fail(monkeypatch, 2)
    manager(tmp_path).save_with_retries(5)
    assert steps(tmp_path) == [5]


def test_best_is_saved_if_better_and_tried_again_if_it_cannot_be_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    checkpoints = manager(tmp_path)
    fail(monkeypatch, 1)
    checkpoints.save_best({"l1": 0.5})
    assert "best.pt not saved" in caplog.text
    checkpoints.save_best({"l1": 0.6})
    (tmp_path / BEST).unlink()
    for l1 in (float("nan"), 0.7):
        checkpoints.save_best({"l1": l1})
    assert not (tmp_path / BEST).exists()


def set_free(monkeypatch: pytest.MonkeyPatch, free: float) -> None:
    monkeypatch.setattr(shutil, "disk_usage", lambda _: Disk(2**60, 0, int(free)))


def test_a_disk_too_small_for_a_checkpoint_is_an_error(tiny_config: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    training = built(tiny_config, "checkpoint.every_steps=1")
    set_free(monkeypatch, training.n_bytes * 1.1)
    check_space(training)
    set_free(monkeypatch, training.n_bytes * 0.9)
    with pytest.raises(ConfigError, match=r"tiny: a checkpoint takes about .* Free space, or set run\.root to"):
        run(tiny_config)
    assert not training.folder.exists()
    monkeypatch.setattr(shutil, "disk_usage", lambda _: Disk(0, 0, 0))  # a file system that counts nothing
    check_space(training)
