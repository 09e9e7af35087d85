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
from training.resume import find_checkpoint, restore
from training.run import Training
from training.run_folder import (
    CheckpointManager,
    RunLockedError,
    count_more_files,
    describe_shortage,
    free_bytes,
    prepare_folder,
    run_lock,
)
from training.validation import BEST, BestScore
from utils.checkpoint import load_checkpoint
from utils.checkpoint_folder import list_checkpoints
from utils.distributed import World
from utils.errors import ConfigError

Disk = namedtuple("Disk", "total used free")


def test_earlier_run_is_archived_and_other_files_are_an_error(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    for number in (1, 2):
        prepare_folder(Config(), folder, [], continues=True)
        (folder / "state.json").write_text(str(number))
        prepare_folder(Config(), folder, [], continues=False)
        assert (tmp_path / f"run.{number}" / "state.json").read_text() == str(number)
        assert [path.name for path in folder.iterdir()] == ["config.yaml"]
    (folder / "config.yaml").rename(folder / "notes.txt")
    with pytest.raises(ConfigError, match=r"run\.root, run\.name: cannot make or write .*not of a run"):
        prepare_folder(Config(), folder, [], continues=False)


def test_incomplete_files_are_removed_and_damaged_checkpoints_renamed(tmp_path: Path) -> None:
    damaged, manifest = tmp_path / "checkpoint-00000002.pt", tmp_path / "checkpoint-00000001.pt.json"
    for path in (damaged, manifest):
        path.touch()
    prepare_folder(Config(), tmp_path, [damaged], continues=True)
    assert {path.name for path in tmp_path.iterdir()} == {"checkpoint-00000002.pt.damaged", "config.yaml"}


def test_one_process_trains_in_a_folder_at_a_time(tmp_path: Path) -> None:
    with run_lock(tmp_path / "run"):
        with pytest.raises(RunLockedError, match="run: another process"), run_lock(tmp_path / "run"):
            pass
        with run_lock(tmp_path / "other"):
            pass
    with run_lock(tmp_path / "run"):
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


def fail(monkeypatch: pytest.MonkeyPatch, n_times: int) -> list[int]:
    """Have the next `n_times` saves fail; the list counts all."""
    calls, original = list[int](), run_folder.save_checkpoint

    def save(path: Path, state: dict[str, Any]) -> None:
        calls.append(len(calls))
        if len(calls) <= n_times:
            raise OSError(28, "No space left on device", str(path))
        original(path, state)

    monkeypatch.setattr(run_folder, "save_checkpoint", save)
    monkeypatch.setattr(run_folder, "RETRY_S", 0.0)
    return calls


def steps(folder: Path) -> list[int]:
    return [int(path.stem.partition("-")[2]) for path in list_checkpoints(folder)]


def test_checkpoints_are_saved_periodically_and_the_latest_are_kept(tmp_path: Path) -> None:
    checkpoints = manager(tmp_path, every_steps=2, keep=2)
    for step in range(1, 8):
        checkpoints.save_if_due(step)
    assert steps(tmp_path) == [4, 6]


def test_failed_save_is_tried_again_and_success_resets_the_count(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    checkpoints = manager(tmp_path)
    calls = fail(monkeypatch, 2)
    for step in range(1, 41):
        checkpoints.save_if_due(step)
    assert steps(tmp_path) == [24, 40]  # after 20 and 22, a tenth of the steps apart
    assert len(calls) == 4
    assert "training continues and tries again at step 22" in caplog.text
    fail(monkeypatch, 2)
    for step in range(41, 65):
        checkpoints.save_if_due(step)
    assert steps(tmp_path) == [24, 40, 64]


@pytest.mark.parametrize(("n_failures", "is_saved"), [(0, True), (2, True), (3, False)])
def test_the_last_save_has_three_tries(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, n_failures: int, is_saved: bool
) -> None:
    checkpoints = manager(tmp_path)
    fail(monkeypatch, n_failures)
    if is_saved:
        checkpoints.save_with_retries(5)
    else:
        with pytest.raises(OSError, match="No space left"):
            checkpoints.save_with_retries(5)
    assert steps(tmp_path) == ([5] if is_saved else [])


def test_best_is_saved_if_better_and_an_unknown_best_is_archived(tmp_path: Path) -> None:
    (tmp_path / BEST).write_bytes(b"of another run")
    checkpoints = manager(tmp_path)
    written = list[bool]()
    for l1 in (0.5, 0.6, float("nan"), 0.4):
        if written:
            (tmp_path / BEST).unlink(missing_ok=True)
        checkpoints.save_best({"l1": l1})
        written.append((tmp_path / BEST).is_file())
    assert written == [True, False, False, True]
    assert (tmp_path / "best.1.pt").read_bytes() == b"of another run"
    assert len(load_checkpoint(tmp_path / BEST)["random_states"]) == 1


def test_best_that_cannot_be_written_is_tried_at_the_next_validation(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    checkpoints = manager(tmp_path)
    fail(monkeypatch, 1)
    checkpoints.save_best({"l1": 0.5})
    assert "best.pt not saved" in caplog.text
    checkpoints.save_best({"l1": 0.6})
    assert (tmp_path / BEST).is_file()


def set_free(monkeypatch: pytest.MonkeyPatch, free: float) -> None:
    monkeypatch.setattr(shutil, "disk_usage", lambda _: Disk(2**60, 0, int(free)))


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        (["train.max_steps=100", "checkpoint.every_steps=10"], 3 + 1),  # one is written before the oldest is deleted
        (["train.max_steps=100", "checkpoint.every_steps=10", "checkpoint.best=auto"], 3 + 1 + 1),
        (["train.max_steps=95", "checkpoint.every_steps=10", "checkpoint.keep=0"], 10),
        (["train.max_steps=4"], 1),
    ],
)
def test_files_of_a_new_run_are_counted(tiny_config: Path, settings: list[str], expected: int) -> None:
    assert count_more_files(built(tiny_config, *settings)) == expected


def test_present_checkpoints_are_not_counted_again(trained_config: Path) -> None:
    training = built(trained_config, "train.max_steps=100", "checkpoint.every_steps=10")
    found = find_checkpoint(training.folder, "auto")
    assert found
    restore(training, found)
    training.continues = True
    assert count_more_files(training) == 3
    training.continues = False
    assert count_more_files(training) == 4


@pytest.mark.parametrize(("share", "warns"), [(4.1, False), (3.9, True)])
def test_a_disk_too_small_for_all_is_a_warning(
    tiny_config: Path, monkeypatch: pytest.MonkeyPatch, share: float, warns: bool
) -> None:
    training = built(tiny_config, "checkpoint.every_steps=1")
    set_free(monkeypatch, training.n_bytes * share)
    lines = describe_shortage(training)
    assert ["change checkpoint.keep=3" in line for line in lines] == [True] * warns


def test_a_disk_too_small_for_one_is_an_error_and_leaves_no_folder(
    tiny_config: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    set_free(monkeypatch, built(tiny_config).n_bytes * 0.9)
    with pytest.raises(ConfigError, match=r"tiny: a checkpoint takes about .* Free space, or set run\.root to"):
        run(tiny_config)
    assert not (tiny_config.parent / "runs" / "tiny").exists()


def test_the_folder_need_not_exist_and_a_file_system_that_counts_nothing_is_not_judged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert free_bytes(tmp_path / "runs" / "new") is not None
    monkeypatch.setattr(shutil, "disk_usage", lambda _: Disk(0, 0, 0))
    assert free_bytes(tmp_path) is None
