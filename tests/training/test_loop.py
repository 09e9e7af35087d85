"""The loop: its batches, its means, and which of reports, validations and saves come after which step."""

import math
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import pytest
import torch
from torch import nn

import training.batches
from data.batch import Batch, DeviceTransfer, Sample
from data.loader import read_fixed
from tests.training.conftest import Build
from training.batches import BatchReader
from training.loop import TrainingLoop
from training.optimizer_group import RunningMeans
from training.report.sinks import Report, Sink
from training.run import Training
from training.run_folder import CheckpointManager
from training.validation import Validation
from utils.distributed import World
from utils.signals import GracefulStop


def watched(training: Training) -> tuple[TrainingLoop, dict[str, list[int]]]:
    """Return a loop with a fake log, validation and checkpoints, and the steps after each of its calls by name."""
    result: dict[str, list[int]] = {}

    def note(name: str, value: Any = None) -> Mock:
        def called(*_: Any, **__: Any) -> Any:
            result.setdefault(name, []).append(training.loop.step)
            return value

        return Mock(side_effect=called)

    batches = [[Batch.of([read_fixed(training.splits.train, training.preprocessing, 0)])]]
    reader, sink = Mock(spec=BatchReader), Mock(spec=Sink)
    reader.read_step.return_value, reader.lap.return_value = batches, (1.0, 0.0)
    sink.progress = note("report")
    validation, checkpoints = Mock(spec=Validation), Mock(spec=CheckpointManager)
    validation.run = note("validate", SimpleNamespace(summary=SimpleNamespace(figures={"l1": 0.5})))
    checkpoints.save_with_retries, checkpoints.save_if_due = note("save"), note("save if due")
    training.validation = validation
    return TrainingLoop(training, reader, Report([sink], 1), checkpoints, lambda *_: None), result


def test_a_run_reports_validates_and_saves_at_its_steps_and_at_its_end(build_fake: Build) -> None:
    loop, steps = watched(build_fake("train.max_steps=7", "log.every_steps=2", "log.images_every_steps=3"))
    loop.run(GracefulStop())
    assert steps == {"report": [2, 4, 6, 7], "validate": [3, 6, 7], "save if due": [1, 2, 3, 4, 5, 6], "save": [7]}


def test_a_plateau_is_fed_once_an_epoch(build_fake: Build) -> None:
    training = build_fake("train.max_steps=12", "optimizer.decay=plateau", "log.images_every_steps=100")
    plateau = training.schedule.plateau
    assert plateau is not None
    plateau.patience = 0
    loop, steps = watched(training)
    loop.run(GracefulStop())
    assert steps["validate"] == [5, 10, 12]  # epochs of 5 batches
    assert (plateau.best, plateau.factor) == (0.5, 0.2)


def test_an_average_is_validated_with_the_singular_values_of_its_own_weights(build_fake: Build) -> None:
    training = build_fake("generator.spectral_norm=true", "train.ema_decay=0.5", "train.max_steps=2")
    average = training.averages["painter"].module
    assert isinstance(average, nn.Conv2d)
    weights = dict(average.named_parameters())["parametrizations.weight.original"]
    training.update_averages = lambda: nn.init.normal_(weights)  # type: ignore[method-assign, assignment]
    watched(training)[0].run(GracefulStop())
    assert torch.linalg.matrix_norm(average.weight.flatten(1), 2).item() == pytest.approx(1, abs=1e-3)


def test_a_run_that_asks_for_its_end_is_saved_before_the_next_step(build_fake: Build) -> None:
    loop, steps = watched(build_fake("train.max_steps=9", "log.every_steps=9", "log.images_every_steps=9"))
    ask, sink = iter([None, "enough"]), Mock(spec=Sink)
    sink.end_step = lambda: setattr(loop, "end_reason", next(ask))
    loop.report = Report([sink], 1)
    loop.run(GracefulStop())
    assert steps == {"save if due": [1, 2], "save": [2]}


def endless() -> Iterator[Batch]:
    for number in range(100):
        image = torch.zeros(3, 2, 2, dtype=torch.uint8)
        yield Batch.of([Sample(name=f"{number}", source=image, target=image)])


def reader(stream: Iterator[Batch]) -> BatchReader:
    transfer = DeviceTransfer(torch.device("cpu"))
    return BatchReader(stream, transfer, 10, discriminator_steps=2, accumulation_steps=3)


def test_a_step_has_a_group_of_batches_for_each_update_of_the_discriminator() -> None:
    one = reader(endless())
    first, second = one.read_step(), one.read_step()
    assert first is not None
    assert second is not None
    assert [[list(batch.names) for batch in group] for group in first] == [[["0"], ["1"], ["2"]], [["3"], ["4"], ["5"]]]
    assert [list(batch.names) for group in second for batch in group] == [[f"{number}"] for number in range(6, 12)]


def test_speed_and_waiting_are_measured_since_the_last_report(monkeypatch: pytest.MonkeyPatch) -> None:
    now_s = 0.0
    monkeypatch.setattr(training.batches.time, "perf_counter", lambda: now_s)

    def slow() -> Iterator[Batch]:
        nonlocal now_s
        for batch in endless():
            now_s += 0.5
            yield batch

    one = reader(slow())
    one.read_step()
    now_s += 1
    assert one.lap(18) == (2.0, 0.75)
    now_s += 1
    assert one.lap(19) == (1.0, 0.0)


ALONE = World(0, 1, torch.device("cpu"))


def tensors(**values: float) -> dict[str, torch.Tensor]:
    return {name: torch.tensor(value) for name, value in values.items()}


def test_means_cover_the_additions_since_the_last_flush() -> None:
    means = RunningMeans()
    means.add(tensors(a=1.0, b=2.0), "loss/")
    means.add(tensors(a=3.0, b=6.0), "loss/")
    assert means.flush(ALONE) == {"loss/a": 2.0, "loss/b": 4.0}
    means.add(tensors(a=7.0, b=8.0), "loss/")
    means.add(tensors(a=9.0), "loss/")
    assert means.flush(ALONE) == {"loss/a": 8.0, "loss/b": 8.0}


def test_means_ignore_values_that_are_not_finite() -> None:
    means = RunningMeans()
    for a, b in ((1.0, 2.0), (math.nan, 4.0), (math.inf, 6.0), (3.0, 8.0)):
        means.add(tensors(a=a, b=b), "")
    means.add(tensors(c=math.nan), "")
    found = means.flush(ALONE)
    assert math.isnan(found.pop("c"))
    assert found == {"a": 2.0, "b": 5.0}
    assert means.flush(ALONE) == {}
