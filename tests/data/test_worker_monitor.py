import os
import signal
from collections.abc import Iterator
from typing import Any

import pytest

from data.batch import LoadingError
from data.worker_monitor import WorkerMonitor, describe_exit


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


def test_a_broken_connection_to_a_process_that_is_ending_is_its_end() -> None:
    def broken() -> Iterator[Any]:
        raise ConnectionResetError
        yield

    loader: Any = broken()
    processes: list[Any] = [EndingProcess()]
    with (
        pytest.raises(LoadingError, match="was ended by SIGKILL while it read sample 7"),
        WorkerMonitor(loader, processes, lambda _: "sample 7", timeout_s=0, should_stop=lambda: False) as monitor,
    ):
        monitor.next_batch("a batch")
