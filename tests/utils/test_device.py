"""The choice of a device, and deterministic algorithms."""

import logging
import os
import warnings
from collections.abc import Iterator
from unittest.mock import Mock

import pytest
import torch
from torch import nn

from utils import device
from utils.device import (
    DeviceError,
    OptLevel,
    allow_tf32,
    choose_device,
    choose_precision,
    use_deterministic_algorithms,
)

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
    with pytest.raises(DeviceError, match=r"process 2 .*finds only 2\. Start 2 processes with"):
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


CPU = torch.device("cpu")


@pytest.mark.parametrize(
    ("opt_level", "dtype", "expected", "has_master_weights", "scales"),
    [
        ("O0", "float16", torch.float32, False, False),
        ("O1", "float16", torch.float16, False, True),
        ("O2", "bfloat16", torch.bfloat16, True, False),
        ("O3", "float16", torch.float16, False, False),
    ],
)
def test_the_opt_level_and_the_dtype_decide(
    opt_level: OptLevel, dtype: str, expected: torch.dtype, has_master_weights: bool, scales: bool
) -> None:
    precision, network = choose_precision(opt_level, dtype, CPU), nn.Linear(2, 2)
    assert precision.compute_dtype == expected
    assert precision.make_scaler().is_enabled() == scales
    assert (precision.compute_copy(network) is network) != has_master_weights
    assert network.weight.dtype == (expected if opt_level == "O3" else torch.float32)
    with precision.autocast():
        assert (torch.ones(2, 2) @ torch.ones(2, 2)).dtype == expected


def test_for_translation_o2_casts_in_place_and_spares_the_norms() -> None:
    torch.manual_seed(0)
    network = nn.Sequential(nn.utils.parametrizations.spectral_norm(nn.Conv2d(3, 4, 3)), nn.BatchNorm2d(4)).eval()
    precision = choose_precision("O2", "bfloat16", CPU)
    image = torch.randn(1, 3, 8, 8)
    with torch.no_grad(), precision.autocast():
        expected = precision.compute_copy(network)(image)
        cast = precision.cast(network)
        assert torch.equal(cast(image), expected)
    assert cast is network
    assert network[0].weight.dtype == torch.bfloat16
    assert {tensor.dtype for tensor in network[1].state_dict().values()} == {torch.float32, torch.int64}


@pytest.mark.parametrize("is_allowed", [False, True])
def test_tf32_is_set_for_all_who_ask(is_allowed: bool) -> None:
    allow_tf32(is_allowed)
    wanted = "tf32" if is_allowed else "ieee"
    kinds = [torch.backends.cudnn.conv, torch.backends.cudnn.rnn]  # type: ignore[attr-defined]
    assert [kind.fp32_precision for kind in kinds] == [wanted, wanted]
    assert torch.backends.cuda.matmul.fp32_precision == "ieee"
    assert torch.backends.cudnn.allow_tf32 is is_allowed  # torch.compile asks so
    assert torch.backends.cuda.matmul.allow_tf32 is False
    assert torch.get_float32_matmul_precision() == "highest"


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_a_gpu_has_a_low_precision_and_without_tf32_computes_in_float32() -> None:
    assert choose_precision("O1", "auto", torch.device("cuda")).compute_dtype in (torch.float16, torch.bfloat16)
    generator = torch.Generator().manual_seed(0)
    image, weight = (torch.randn(n, 256, 16, 16, dtype=torch.float64, generator=generator) for n in (1, 64))
    weight = weight[..., :3, :3]
    expected = torch.nn.functional.conv2d(image, weight)
    allow_tf32(False)
    found = torch.nn.functional.conv2d(image.float().cuda(), weight.float().cuda())
    allow_tf32(True)
    assert (found.double().cpu() - expected).norm() < 1e-6 * expected.norm()
