"""When a run is saved, and what a failing disk costs."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
import torch

from configs.schema.run import CheckpointConfig
from training import checkpointing
from training.best import BEST, BestScore
from training.checkpointing import CheckpointManager
from training.run import Training
from utils.checkpoint import load_checkpoint
from utils.checkpoint_folder import list_checkpoints
from utils.distributed import World


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
    calls, original = list[int](), checkpointing.save_checkpoint

    def save(path: Path, state: dict[str, Any]) -> None:
        calls.append(len(calls))
        if len(calls) <= n_times:
            raise OSError(28, "No space left on device", str(path))
        original(path, state)

    monkeypatch.setattr(checkpointing, "save_checkpoint", save)
    monkeypatch.setattr(checkpointing, "RETRY_S", 0.0)
    return calls


def steps(folder: Path) -> list[int]:
    return [int(path.stem.partition("-")[2]) for path in list_checkpoints(folder)]


def test_each_multiple_is_saved_and_the_latest_are_kept(tmp_path: Path) -> None:
    checkpoints = manager(tmp_path, every_steps=2, keep=2)
    for step in range(1, 8):
        checkpoints.save_if_due(step)
    assert steps(tmp_path) == [4, 6]


def test_a_failed_save_is_tried_again_soon_and_the_count_starts_over(
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


def test_the_best_is_saved_where_it_is_better_and_an_unknown_one_is_kept(tmp_path: Path) -> None:
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


def test_a_best_that_cannot_be_written_is_tried_at_the_next_validation(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    checkpoints = manager(tmp_path)
    fail(monkeypatch, 1)
    checkpoints.save_best({"l1": 0.5})
    assert "best.pt not saved" in caplog.text
    checkpoints.save_best({"l1": 0.6})
    assert (tmp_path / BEST).is_file()
