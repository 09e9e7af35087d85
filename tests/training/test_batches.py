"""How the batches of a step are taken from the stream of the loader."""

from collections.abc import Iterator
from typing import cast

import pytest
import torch

import training.batches
from data.batch import Batch, DeviceTransfer, Sample
from tests.training.conftest import Build
from training.batches import BatchReader, open_batches, sample_names
from utils.signals import GracefulStop


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
    assert sample_names(second) == "6 7 8 9 10 11"


@pytest.mark.parametrize("batch", [0, 3])
def test_a_run_reads_on_from_its_position(build_fake: Build, batch: int) -> None:
    built = build_fake()
    names = {}
    for begin in (0, batch):
        built.loop.batches = begin
        with open_batches(built, GracefulStop()) as batches:
            names[begin] = [sample_names(cast(list[list[Batch]], batches.read_step())) for _ in range(5 - begin)]
    assert names[batch] == names[0][batch:]
    assert len(set(names[0])) == 5


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
