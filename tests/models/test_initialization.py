import pytest
import torch
from torch import nn

from models.initialization import Init, initialize


@pytest.mark.parametrize(
    ("init", "std"),
    [
        ("normal", 0.02),
        ("xavier", 0.02 * (2 / (64 * 9 + 32 * 9)) ** 0.5),  # Glorot & Bengio 2010, times the gain
        ("kaiming", (2 / (64 * 9)) ** 0.5),  # He et al. 2015
    ],
)
def test_convolutions_have_the_deviation_of_the_method(init: Init, std: float) -> None:
    torch.manual_seed(0)
    convolution = nn.Conv2d(64, 32, 3)
    bias = convolution.bias.clone() if convolution.bias is not None else None
    initialize(nn.Sequential(convolution), init, gain=0.02)
    assert convolution.weight.std().item() == pytest.approx(std, rel=0.03)
    assert abs(convolution.weight.mean().item()) < std / 10
    assert convolution.bias is not None
    assert bias is not None
    assert torch.equal(convolution.bias, bias)


def test_orthogonal_rows_are_orthogonal_with_the_gain_as_length() -> None:
    convolution = nn.Conv2d(64, 32, 3)
    initialize(convolution, "orthogonal", gain=0.5)
    rows = convolution.weight.flatten(1)
    torch.testing.assert_close(rows @ rows.T, 0.25 * torch.eye(32), atol=1e-5, rtol=0)


def test_batch_norm_starts_around_one() -> None:
    torch.manual_seed(0)
    norm = nn.BatchNorm2d(1000)
    initialize(norm, "normal", gain=0.02)
    assert norm.weight.mean().item() == pytest.approx(1.0, abs=0.01)
    assert norm.weight.std().item() == pytest.approx(0.02, rel=0.1)
