import pytest
import torch
from torch import nn

from utils.device import OptLevel, allow_tf32, choose_precision

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
