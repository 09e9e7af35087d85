"""The choice of a device, and deterministic algorithms."""

import logging
import os
import warnings
from collections.abc import Iterator
from unittest.mock import Mock

import pytest
import torch

from utils import device
from utils.device import DeviceError, choose_device, use_deterministic_algorithms

OLD = "GPU 0: torch 2 cannot use it: no kernel image"


def test_a_gpu_without_kernels_is_refused_and_by_auto_left_for_the_cpu(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    monkeypatch.setattr(device, "_problem_of", lambda index: None if index else OLD)  # torch supports the second
    with caplog.at_level(logging.WARNING):
        assert choose_device("auto") == torch.device("cpu")
    assert caplog.messages == [f"{OLD}; using the CPU"]
    assert choose_device("auto", index=1) == torch.device("cuda", 1)
    with pytest.raises(DeviceError, match=r"^GPU 0: .* image\. Install a build .*, or use run\.device=cpu\.$"):
        choose_device("cuda")
    with pytest.raises(DeviceError, match=r"process 2 of this machine has no GPU, torch finds 2\. Start 2 with"):
        choose_device("auto", index=2)
    monkeypatch.setenv("WORLD_SIZE", "2")  # the processes of a run decide alike
    with pytest.raises(DeviceError, match="GPU 0"):
        choose_device("auto")


def test_a_gpu_that_cannot_compute_has_a_problem_of_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch, "ones", Mock(side_effect=RuntimeError("CUDA error: no kernel image\nFor debugging")))
    problem = device._problem_of(3)
    assert problem == f"GPU 3: torch {torch.__version__} cannot use it: CUDA error: no kernel image"
    monkeypatch.setattr(torch, "ones", Mock(side_effect=torch.OutOfMemoryError("CUDA out of memory")))
    assert device._problem_of(3) is None  # its memory is full for now


@pytest.fixture
def leaves_settings(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.delenv("CUBLAS_WORKSPACE_CONFIG", raising=False)
    benchmark = torch.backends.cudnn.benchmark
    with warnings.catch_warnings():
        yield
    use_deterministic_algorithms(False)
    torch.backends.cudnn.benchmark = benchmark


@pytest.mark.usefixtures("leaves_settings")
def test_every_setting_that_chooses_algorithms_is_set() -> None:
    torch.backends.cudnn.benchmark = True
    use_deterministic_algorithms(True)
    assert torch.are_deterministic_algorithms_enabled()
    assert torch.backends.cudnn.deterministic
    assert not torch.backends.cudnn.benchmark
    assert os.environ["CUBLAS_WORKSPACE_CONFIG"] == ":4096:8"
    with pytest.warns(UserWarning, match="put_ does not have a deterministic implementation"):
        torch.zeros(3).put_(torch.tensor([0, 0]), torch.ones(2))
    use_deterministic_algorithms(False)
    assert not torch.are_deterministic_algorithms_enabled()
    assert not torch.backends.cudnn.deterministic
