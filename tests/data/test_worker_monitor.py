import multiprocessing
import os
import signal
from collections.abc import Iterator
from typing import Any

import pytest

from data import worker_monitor
from data.batch import LoadingError
from data.facades.dataset import SyntheticFacades
from data.loader import SampleKey, TrainingDataset
from data.worker_monitor import MonitoredDataset, WorkerMonitor, describe_exit
from tests.reliability.images import WHOLE


@pytest.mark.parametrize(
    ("exit_code", "sample", "expected"),
    [
        (3, None, "a loader process ended with exit code 3; python -m tools.check_data"),
        (-signal.SIGSEGV, "sample a", "a loader process was ended by SIGSEGV while it read sample a; python -m tools"),
        (-signal.SIGKILL, None, "a loader process was ended by SIGKILL; often because the memory is full: lower"),
        (-signal.SIGBUS, None, "a loader process was ended by SIGBUS; often because the shared memory"),
    ],
)
def test_the_end_of_a_process_is_described_with_a_remedy(exit_code: int, sample: str | None, expected: str) -> None:
    assert describe_exit(exit_code, sample).startswith(expected)


class EndingProcess:
    """A process between the moment at which its end shows and the one at which its exit code is known."""

    exitcode: int | None = None

    def __init__(self) -> None:
        self.sentinel, written = os.pipe()
        os.close(written)

    def join(self) -> None:
        self.exitcode = -signal.SIGKILL

    def kill(self) -> None:
        pass


def test_a_broken_connection_to_a_process_that_is_ending_is_its_end(monkeypatch: pytest.MonkeyPatch) -> None:
    class BrokenLoader:
        """Starts a process, which records sample 7, and ends it."""

        def __init__(self, dataset: MonitoredDataset, *, multiprocessing_context: Any, **_: object) -> None:
            self.dataset, self.context = dataset, multiprocessing_context

        def __iter__(self) -> Iterator[Any]:
            self.context.Process()
            self.dataset.reading[:] = [0, 7]
            return self

        def __next__(self) -> Any:
            raise ConnectionResetError

    monkeypatch.setattr(multiprocessing.context.ForkContext, "Process", EndingProcess)
    monkeypatch.setattr(worker_monitor, "DataLoader", BrokenLoader)
    dataset = TrainingDataset(SyntheticFacades(split="train", seed=0, n_samples=8, height=32, width=32), WHOLE, 0)
    with (
        pytest.raises(LoadingError, match="was ended by SIGKILL while it read sample facade_00007"),
        WorkerMonitor(dataset, [[SampleKey(0, 0)]], list, n_processes=1, timeout_s=0) as monitor,
    ):
        next(iter(monitor))
    assert monitor.lost == 7
