import pytest
import torch
from torch import Tensor, nn

import models.layers
from models.layers import WideConv2d


@pytest.fixture(autouse=True)
def everything_is_wide(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(models.layers, "WIDE_WEIGHTS", 0)


def gradients(convolution: nn.Conv2d, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    x = x.clone().requires_grad_()
    y = convolution(x)
    y.square().sum().backward()
    assert x.grad is not None
    assert convolution.weight.grad is not None
    return y.detach(), x.grad, convolution.weight.grad


@pytest.mark.parametrize("n", [1, 3])
def test_it_computes_a_convolution_and_its_gradients(n: int) -> None:
    torch.manual_seed(0)
    wide, plain = WideConv2d(4, 6, 3, bias=False).double(), nn.Conv2d(4, 6, 3, bias=False).double()
    plain.load_state_dict(wide.state_dict())
    x = torch.randn(n, 4, 7, 9).double()
    assert type(wide(x.requires_grad_()).grad_fn).__name__ == "_ConvolutionBackward"
    torch.testing.assert_close(gradients(wide, x.detach()), gradients(plain, x.detach()), rtol=1e-12, atol=1e-12)


def test_under_autocast_it_computes_in_the_low_dtype_and_gives_float32_gradients() -> None:
    torch.manual_seed(0)
    wide, plain = WideConv2d(4, 6, 3, bias=False), nn.Conv2d(4, 6, 3, bias=False)
    plain.load_state_dict(wide.state_dict())
    x = torch.randn(2, 4, 8, 8)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        found, expected = gradients(wide, x), gradients(plain, x)
    assert [t.dtype for t in found] == [t.dtype for t in expected] == [torch.bfloat16, torch.float32, torch.float32]
    torch.testing.assert_close(found, expected, rtol=2e-2, atol=2e-1)


def test_what_is_frozen_gets_no_gradient() -> None:
    wide = WideConv2d(4, 6, 3, bias=False).double().requires_grad_(False)
    x = torch.randn(1, 4, 8, 8).double().requires_grad_()
    wide(x).sum().backward()
    assert wide.weight.grad is None
    assert x.grad is not None
