import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from models.layers import Border, UpsampledConv2d
from models.spectral_norm import SpectralNorm, add_spectral_norm, spectral_norms

PADDING = {"reflect": "reflect", "zeros": "constant"}


def in_three_steps(layer: UpsampledConv2d, x: Tensor) -> Tensor:
    enlarged = F.interpolate(x, scale_factor=2, mode="nearest")
    return F.conv2d(F.pad(enlarged, (1, 1, 1, 1), mode=PADDING[layer.border]), layer.weight, layer.bias)


@pytest.mark.parametrize("border", ["reflect", "zeros"])
@pytest.mark.parametrize("height", [1, 5])
def test_it_equals_upsampling_padding_and_convolution(border: Border, height: int) -> None:
    torch.manual_seed(0)
    layer = UpsampledConv2d(3, 4, border=border, bias=True).double()
    x = torch.randn(2, 3, height, 6, dtype=torch.float64, requires_grad=True)
    found, expected = layer(x), in_three_steps(layer, x)
    assert found.shape == (2, 4, 2 * height, 12)
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-13)
    inputs = [x, *layer.parameters()]
    torch.testing.assert_close(
        torch.autograd.grad(found.square().sum(), inputs),
        torch.autograd.grad(expected.square().sum(), inputs),
        rtol=1e-12,
        atol=1e-12,
    )


def test_of_an_even_area_it_makes_an_even_area_without_checkerboard() -> None:
    torch.manual_seed(0)
    even = torch.ones(1, 3, 6, 6)
    transposed = nn.ConvTranspose2d(3, 4, kernel_size=4, stride=2, padding=1, bias=False)
    layers = (UpsampledConv2d(3, 4), transposed)
    made = {type(layer): layer(even)[..., 4:8, 4:8].std(dim=(2, 3)).max() for layer in layers}
    assert made[UpsampledConv2d] < 1e-6
    assert made[nn.ConvTranspose2d] > 1e-2


def test_under_autocast_it_computes_in_the_low_dtype_and_gives_float32_gradients() -> None:
    torch.manual_seed(0)
    layer = UpsampledConv2d(8, 8)
    x = torch.randn(1, 8, 8, 8)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        found = layer(x)
    found.float().sum().backward()
    assert found.dtype == torch.bfloat16
    assert layer.weight.grad is not None
    assert layer.weight.grad.dtype == torch.float32
    torch.testing.assert_close(found.float(), in_three_steps(layer, x), rtol=2e-2, atol=3e-2)


def test_it_reads_its_weight_once_so_that_spectral_norm_iterates_once() -> None:
    layer = add_spectral_norm(nn.Sequential(UpsampledConv2d(3, 4)))
    (norm,) = spectral_norms(layer)
    n_reads = 0

    def count(*_: object) -> None:
        nonlocal n_reads
        n_reads += 1

    assert isinstance(norm, SpectralNorm)
    norm.register_forward_hook(count)
    layer(torch.randn(1, 3, 4, 4))
    assert n_reads == 1
