from collections.abc import Callable
from itertools import product

import pytest
import torch
from torch import Tensor, nn

from models import DISCRIMINATORS, GENERATORS
from models.layers import InstanceNorm
from models.style_encoder import StyleEncoder

LAYOUTS: dict[str, Callable[[Tensor], Tensor]] = {
    "contiguous": Tensor.contiguous,
    "channels-last": lambda x: x.contiguous(memory_format=torch.channels_last),
    "channels-last, then unsqueezed": lambda x: (
        x.contiguous(memory_format=torch.channels_last)[0].unsqueeze(0) if len(x) == 1 else x
    ),
    "images last but one": lambda x: x.permute(2, 3, 0, 1).contiguous().permute(2, 3, 0, 1),
    "transposed": lambda x: x.mT.contiguous().mT,
    "part of the channels": lambda x: torch.cat([x, x], 1)[:, : x.shape[1]],
    "part of the pixels": lambda x: nn.functional.pad(x, (1, 1, 1, 1))[:, :, 1:-1, 1:-1],
}
ON_GPU = pytest.param(
    "cuda",
    marks=[pytest.mark.gpu, pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")],
)


def formula(x: Tensor) -> Tensor:
    variance, mean = torch.var_mean(x, (2, 3), correction=0, keepdim=True)
    return (x - mean) / (variance + 1e-5).sqrt()


@pytest.mark.parametrize("device", ["cpu", ON_GPU])
@pytest.mark.parametrize(
    ("dtype", "tolerance"),
    [(torch.float64, 1e-12), (torch.float32, 1e-5), (torch.bfloat16, 0.02), (torch.float16, 0.003)],
)
def test_values_and_gradients_are_those_of_the_formula(device: str, dtype: torch.dtype, tolerance: float) -> None:
    """On a GPU also a check of the installed torch."""
    norm = InstanceNorm(4)
    for n, x_layout, gradient_layout in product((1, 2), LAYOUTS, LAYOUTS):
        generator = torch.Generator().manual_seed(0)
        x, gradient = (torch.randn(n, 4, 8, 6, dtype=torch.float64, generator=generator) for _ in range(2))
        x, gradient = LAYOUTS[x_layout](x.to(device, dtype)), LAYOUTS[gradient_layout](gradient.to(device, dtype))
        results = []
        for function, own, incoming in ((norm, x, gradient), (formula, x.double(), gradient.double())):
            leaf = own.detach().requires_grad_()
            output = function(leaf)
            results.append([output.detach(), *torch.autograd.grad(output, leaf, incoming)])
        for found, expected in zip(*results, strict=True):
            assert found.dtype == dtype
            error = (found.double() - expected).norm() / expected.norm()
            assert error < tolerance, (n, x_layout, gradient_layout)


@pytest.mark.parametrize("n", [1, 2])
def test_gradients_of_gradients_are_right(n: int) -> None:
    x = torch.randn(n, 2, 3, 2, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradgradcheck(InstanceNorm(2), x)


@pytest.mark.parametrize("device", ["cpu", ON_GPU])
def test_a_network_has_the_same_gradients_in_both_layouts(device: str) -> None:
    gradients = []
    for layout in (torch.contiguous_format, torch.channels_last):
        torch.manual_seed(0)
        network = GENERATORS["global"](in_channels=3, out_channels=3, base_channels=4, n_downsamplings=2, n_blocks=1)
        network.to(device, torch.float64).to(memory_format=layout)
        image = torch.rand(1, 3, 16, 16, dtype=torch.float64, device=device).contiguous(memory_format=layout)
        network(image).square().mean().backward()
        gradients.append([parameter.grad for parameter in network.parameters()])
    torch.testing.assert_close(*gradients, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_autocast_leaves_the_dtype(dtype: torch.dtype) -> None:
    x = torch.randn(1, 4, 8, 6, dtype=dtype)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert InstanceNorm(4)(x).dtype == nn.InstanceNorm2d(4)(x).dtype == dtype


@pytest.mark.parametrize("n", [1, 2])
@pytest.mark.parametrize("is_training", [True, False])
def test_a_single_pixel_is_refused(n: int, is_training: bool) -> None:
    with pytest.raises(ValueError, match="Expected more than 1 spatial element"):
        InstanceNorm(4).train(is_training)(torch.zeros(n, 4, 1, 1))


def test_evaluation_is_torch_s_own() -> None:
    x = torch.randn(1, 4, 8, 6)
    assert torch.equal(InstanceNorm(4).eval()(x), nn.functional.instance_norm(x))


def test_every_network_has_it() -> None:
    with torch.device("meta"):
        discriminators = [
            DISCRIMINATORS[name](source_channels=3, norm="instance") for name in ("multiscale_patch", "pixel")
        ]
        networks = [
            *discriminators,
            *(make(in_channels=3, norm="instance") for make in GENERATORS.values()),
            StyleEncoder(),
        ]
    for network in networks:
        norms = {type(module) for module in network.modules() if isinstance(module, nn.InstanceNorm2d)}
        assert norms == {InstanceNorm}, type(network)
