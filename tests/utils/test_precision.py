import pytest
import torch

from utils.precision import choose_precision

CPU = torch.device("cpu")


@pytest.mark.parametrize(
    ("opt_level", "dtype", "expected"),
    [
        ("O0", "float16", torch.float32),
        ("O1", "float16", torch.float16),
        ("O1", "bfloat16", torch.bfloat16),
        ("O3", "bfloat16", torch.bfloat16),
    ],
)
def test_the_opt_level_and_the_dtype_decide(opt_level: str, dtype: str, expected: torch.dtype) -> None:
    precision = choose_precision(opt_level, dtype, CPU)
    assert precision.compute_dtype == expected
    with precision.autocast():
        assert (torch.ones(2, 2) @ torch.ones(2, 2)).dtype == expected


def test_a_cpu_never_takes_float16_by_itself() -> None:
    assert choose_precision("O1", "auto", CPU).compute_dtype in (torch.bfloat16, torch.float32)


def test_only_float16_scales_its_losses() -> None:
    assert choose_precision("O1", "float16", CPU).make_scaler().is_enabled()
    assert not choose_precision("O1", "bfloat16", CPU).make_scaler().is_enabled()
    assert not choose_precision("O0", "auto", CPU).make_scaler().is_enabled()


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_a_gpu_always_has_a_low_precision() -> None:
    assert choose_precision("O1", "auto", torch.device("cuda")).compute_dtype in (torch.float16, torch.bfloat16)
