"""The loop: which of reports, validations and saves come after which step."""

from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import pytest
import torch
from torch import nn

from data.batch import Batch
from data.loader import read_fixed
from tests.training.conftest import Build
from training.batches import BatchReader
from training.loop import TrainingLoop
from training.run import Training
from training.run_folder import CheckpointManager
from training.validation import Validation
from utils.distributed import World
from utils.signals import END, GracefulStop


@dataclass
class Watched:
    """A loop whose data, log, validation and checkpoints are replaced, and the steps after which it called them."""

    loop: TrainingLoop
    steps: dict[str, list[int]] = field(default_factory=dict)


def watched(training: Training) -> Watched:
    result: dict[str, list[int]] = {}

    def note(name: str, value: Any = None) -> Mock:
        def called(*_: Any, **__: Any) -> Any:
            result.setdefault(name, []).append(training.loop.step)
            return value

        return Mock(side_effect=called)

    batches = [[Batch.of([read_fixed(training.splits.train, training.preprocessing, 0)])]]
    reader, report = Mock(spec=BatchReader), Mock()
    reader.read_step.return_value, reader.lap.return_value = batches, (1.0, 0.0)
    report.progress = note("report")
    validation, checkpoints = Mock(spec=Validation), Mock(spec=CheckpointManager)
    validation.run = note("validate", SimpleNamespace(summary=SimpleNamespace(figures={"l1": 0.5})))
    checkpoints.save_with_retries, checkpoints.save_if_due = note("save"), note("save if due")
    training.validation = validation
    return Watched(TrainingLoop(training, reader, report, checkpoints, lambda *_: None), result)


def test_a_run_reports_validates_and_saves_at_its_steps_and_at_its_end(build_fake: Build) -> None:
    one = watched(build_fake("train.max_steps=7", "log.every_steps=2", "log.images_every_steps=3"))
    one.loop.run(GracefulStop())
    assert one.steps == {"report": [2, 4, 6, 7], "validate": [3, 6, 7], "save if due": [1, 2, 3, 4, 5, 6], "save": [7]}


def test_a_plateau_is_fed_once_an_epoch(build_fake: Build) -> None:
    training = build_fake("train.max_steps=12", "optimizer.decay=plateau", "log.images_every_steps=100")
    plateau = training.schedule.plateau
    assert plateau is not None
    plateau.patience = 0
    one = watched(training)
    one.loop.run(GracefulStop())
    assert one.steps["validate"] == [5, 10, 12]  # epochs of 5 batches
    assert (plateau.best, plateau.factor) == (0.5, 0.2)


def test_an_average_is_validated_with_the_singular_values_of_its_own_weights(build_fake: Build) -> None:
    training = build_fake("generator.spectral_norm=true", "train.ema_decay=0.5", "train.max_steps=2")
    average = training.averages["painter"].module
    assert isinstance(average, nn.Conv2d)
    weights = dict(average.named_parameters())["parametrizations.weight.original"]
    training.update_averages = lambda: nn.init.normal_(weights)  # type: ignore[method-assign, assignment]
    watched(training).loop.run(GracefulStop())
    assert torch.linalg.matrix_norm(average.weight.flatten(1), 2).item() == pytest.approx(1, abs=1e-3)


@pytest.mark.parametrize("of_another", [False, True], ids=["here", "in the main process"])
def test_a_run_that_asks_for_its_end_is_saved_before_the_next_step(
    build_fake: Build, monkeypatch: pytest.MonkeyPatch, of_another: bool
) -> None:
    one = watched(build_fake("train.max_steps=9", "log.every_steps=9", "log.images_every_steps=9"))
    if of_another:
        requests = iter([0, 0, END])
        monkeypatch.setattr(World, "all_reduce_max", lambda _world, own: max(own, next(requests)))
    else:
        ask = iter([None, "enough"])
        monkeypatch.setattr(one.loop.report, "end_step", lambda: setattr(one.loop, "end_reason", next(ask)))
    one.loop.run(GracefulStop())
    assert one.steps == {"save if due": [1, 2], "save": [2]}
