"""The choice of a device, and deterministic algorithms."""

import logging
import os
import warnings
from collections.abc import Iterator
from unittest.mock import Mock

import pytest
import torch

from utils.device import DeviceError, choose_device, has_kernels_for, use_deterministic_algorithms
from utils.log import logger

TORCH_2_15 = ["sm_75", "sm_80", "sm_86", "sm_90", "sm_100", "sm_120"]


@pytest.mark.parametrize(
    ("capability", "architectures", "expected"),
    [
        ((8, 6), TORCH_2_15, True),
        ((8, 9), TORCH_2_15, True),  # the code of sm_86
        ((12, 1), TORCH_2_15, True),
        ((6, 1), TORCH_2_15, False),
        ((7, 0), TORCH_2_15, False),  # sm_75 needs minor version 5
        ((11, 0), TORCH_2_15, False),
        ((12, 0), ["sm_80", "compute_90"], True),  # PTX is compiled for what is newer
        ((8, 6), ["sm_75", "compute_90"], False),
        ((9, 0), ["sm_90a"], True),
        ((10, 3), ["sm_100a"], False),
        ((10, 3), ["sm_100f"], True),
        ((12, 0), ["compute_100f"], False),
        ((9, 0), ["gfx90a"], True),
        ((9, 0), [], True),
    ],
)
def test_kernels_run_on_their_own_and_on_later_gpus(
    capability: tuple[int, int], architectures: list[str], expected: bool
) -> None:
    assert has_kernels_for(capability, architectures) == expected


@pytest.fixture
def old_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine with a GPU for which torch has no kernels, and another that it supports."""
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda index: [(6, 1), (8, 6)][index])
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda _: "GeForce GTX 1080")
    monkeypatch.setattr(torch.cuda, "get_arch_list", lambda: TORCH_2_15)


@pytest.mark.usefixtures("old_gpu")
def test_a_gpu_without_kernels_is_refused_and_by_auto_left_for_the_cpu(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING):
        assert choose_device("auto") == torch.device("cpu")
    (message,) = caplog.messages
    assert message.startswith(f"GPU 0 (GeForce GTX 1080, sm_61): torch {torch.__version__} has kernels for sm_75 sm_80")
    assert message.endswith("only; using the CPU")
    assert "\n" not in message
    assert choose_device("auto", index=1) == torch.device("cuda", 1)
    assert choose_device("cpu") == torch.device("cpu")
    with pytest.raises(DeviceError, match=r"^GPU 0 \(GeForce .* only; install a build .*, or use run\.device=cpu$"):
        choose_device("cuda")
    with pytest.raises(DeviceError, match=r"process 2 of this machine has no GPU, torch finds 2\. Start 2 with"):
        choose_device("auto", index=2)
    monkeypatch.setenv("LOCAL_WORLD_SIZE", "2")  # the processes of a machine decide alike
    assert [choose_device("auto", index=rank).type for rank in range(2)] == ["cpu", "cpu"]


def test_a_gpu_whose_driver_does_not_start_is_no_gpu(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    fails = Mock(side_effect=RuntimeError("The NVIDIA driver on your system is too old\nPlease update"))
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    monkeypatch.setattr(torch.cuda, "get_device_capability", fails)
    with caplog.at_level(logging.WARNING):
        assert choose_device("auto") == torch.device("cpu")
    assert caplog.messages == ["GPU 0 cannot be started: The NVIDIA driver on your system is too old; using the CPU"]
    with pytest.raises(DeviceError, match="driver on your system is too old; install a build of torch"):
        choose_device("cuda")


@pytest.fixture
def leaves_settings(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.delenv("CUBLAS_WORKSPACE_CONFIG", raising=False)
    benchmark = torch.backends.cudnn.benchmark
    with warnings.catch_warnings():
        yield
    use_deterministic_algorithms(False)
    torch.backends.cudnn.benchmark = benchmark


@pytest.mark.usefixtures("leaves_settings")
def test_everything_that_chooses_algorithms_is_set(monkeypatch: pytest.MonkeyPatch) -> None:
    torch.backends.cudnn.benchmark = True
    use_deterministic_algorithms(True)
    assert torch.are_deterministic_algorithms_enabled()
    assert torch.backends.cudnn.deterministic
    assert not torch.backends.cudnn.benchmark
    assert os.environ["CUBLAS_WORKSPACE_CONFIG"] == ":4096:8"
    use_deterministic_algorithms(False)
    assert not torch.are_deterministic_algorithms_enabled()
    assert not torch.backends.cudnn.deterministic


@pytest.mark.usefixtures("leaves_settings")
def test_an_operation_without_a_deterministic_algorithm_is_named_once(caplog: pytest.LogCaptureFixture) -> None:
    use_deterministic_algorithms(True)
    with caplog.at_level(logging.WARNING, logger.name):
        for _ in range(3):
            torch.zeros(3).put_(torch.tensor([0, 0]), torch.ones(2))
    (message,) = caplog.messages
    assert message.startswith("train.deterministic: put_ has no deterministic algorithm")
