import signal

import pytest

from data.worker_monitor import describe_exit


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
