"""Too little memory ends a run in one line."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch

from tests.runs import run
from training.optimizer_group import OptimizerGroup
from utils.cli import run_entry_point


def allocate(_: object) -> None:
    torch.empty(2**60, dtype=torch.uint8)


def fill_the_gpu(_: object) -> None:
    raise torch.OutOfMemoryError(
        "CUDA out of memory. Tried to allocate 2.50 GiB. GPU 0 has a total capacity of 11.90 GiB of which 1.20 GiB is "
        "free. Of the allocated memory 9.10 GiB is allocated by PyTorch"
    )


def fill_memory(_: object) -> None:
    raise MemoryError


def fill_cudnn(_: object) -> None:
    raise RuntimeError("cuDNN error: CUDNN_STATUS_ALLOC_FAILED")


def fill_numpy(_: object) -> None:
    np.empty(2**50, dtype=np.uint8)


@pytest.mark.parametrize(
    ("work", "asked"),
    [
        (allocate, f"{2**60} bytes more"),
        (fill_the_gpu, "2.50 GiB more"),
        (fill_memory, "enough"),
        (fill_cudnn, "enough"),
        (fill_numpy, "1.00 PiB more"),
    ],
)
def test_too_little_memory_is_told_in_one_line(
    work: Callable[[object], None], asked: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run_entry_point(work) == 2
    error = capsys.readouterr().err
    assert error.startswith(
        f"error: out of memory: could not allocate {asked}; train with train.activation_checkpointing"
    )
    assert error.count("\n") == 1


def test_too_little_memory_for_a_checkpoint_is_not_its_fault(
    trained_config: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(OptimizerGroup, "load_state_dict", lambda *_: fill_the_gpu(None))
    with pytest.raises(torch.OutOfMemoryError):
        run(trained_config, "train.max_steps=8")
