"""Too little memory ends a run in one line."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch

from tests.reliability.faults import throw
from tests.runs import run
from training.optimizer_group import OptimizerGroup
from utils.cli import run_entry_point

OF_GPU = torch.OutOfMemoryError(
    "CUDA out of memory. Tried to allocate 2.50 GiB. GPU 0 has a total capacity of 11.90 GiB of which 1.20 GiB is "
    "free. Of the allocated memory 9.10 GiB is allocated by PyTorch"
)


@pytest.mark.parametrize(
    ("work", "asked"),
    [
        (lambda _: torch.empty(2**60, dtype=torch.uint8), f"{2**60} bytes more"),
        (lambda _: throw(OF_GPU), "2.50 GiB more"),
        (lambda _: throw(MemoryError()), "enough"),
        (lambda _: throw(RuntimeError("cuDNN error: CUDNN_STATUS_ALLOC_FAILED")), "enough"),
        (lambda _: np.empty(2**50, dtype=np.uint8), "1.00 PiB more"),
    ],
)
def test_too_little_memory_is_reported_in_one_line(
    work: Callable[[object], None], asked: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run_entry_point(work) == 2
    (line,) = capsys.readouterr().err.splitlines()
    expected = f"error: out of memory: could not allocate {asked}; train with train.activation_checkpointing"
    assert line.startswith(expected)


def test_too_little_memory_for_a_checkpoint_is_not_its_fault(
    trained_config: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(OptimizerGroup, "load_state_dict", lambda *_: throw(OF_GPU))
    with pytest.raises(torch.OutOfMemoryError):
        run(trained_config, "train.max_steps=8")
