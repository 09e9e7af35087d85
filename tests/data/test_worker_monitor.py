import os
import signal
import time

import pytest

from data.batch import LoadingError
from data.facades.dataset import SyntheticFacades
from data.loader import SampleKey, TrainingDataset
from data.worker_monitor import WorkerMonitor, describe_exit
from tests.reliability.images import WHOLE


@pytest.mark.parametrize(
    ("exit_code", "sample", "expected"),
    [
        (3, None, "a loader process ended with exit code 3; python -m tools.check_data"),
        (-signal.SIGSEGV, "sample a", "a loader process ended by SIGSEGV while it read sample a; python -m tools"),
        (-signal.SIGKILL, None, "a loader process ended by SIGKILL; often because the memory is full: lower"),
    ],
)
def test_the_end_of_a_process_is_described_with_a_remedy(exit_code: int, sample: str | None, expected: str) -> None:
    assert describe_exit(exit_code, sample).startswith(expected)


def close_and_exit(_samples: object) -> None:
    os.closerange(3, 1000)
    time.sleep(0.3)
    os._exit(3)


def test_the_exit_code_of_a_process_whose_connection_has_ended_is_waited_for() -> None:
    dataset = TrainingDataset(SyntheticFacades(split="train", seed=0, n_samples=8, height=32, width=32), WHOLE, 0)
    monitor = WorkerMonitor(dataset, [[SampleKey(0, 7)]], close_and_exit, n_processes=1, timeout_s=0)
    with monitor, pytest.raises(LoadingError, match="ended with exit code 3"):
        next(iter(monitor))
