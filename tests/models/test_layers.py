"""Layers compute what torch's do, or the formula that torch lacks."""

from collections.abc import Callable
from itertools import permutations, product
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from models import DISCRIMINATORS, GENERATORS
from models.layers import (
    AntialiasedDownsampling,
    Border,
    InstanceNorm,
    PairConv2d,
    ReflectionPadding,
    UpsampledConv2d,
    reflect,
)
from models.spectral_norm import add_spectral_norm, spectral_norms
from models.style_encoder import StyleEncoder
from tests.runs import ON_GPU


@pytest.mark.parametrize("padding", [1, 3])
def test_reflect_has_torchs_values_and_gradients(padding: int) -> None:
    x = torch.randn(2, 3, 5, 7, dtype=torch.float64, requires_grad=True)
    expected, found = ReflectionPadding(padding)(x), reflect(x, padding)
    assert torch.equal(found, expected)
    weights = torch.randn_like(expected)
    gradients = [torch.autograd.grad((y * weights).sum(), x)[0] for y in (expected, found)]
    torch.testing.assert_close(*gradients, rtol=1e-14, atol=1e-14)


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


def formula(x: Tensor) -> Tensor:
    variance, mean = torch.var_mean(x, (2, 3), correction=0, keepdim=True)
    return (x - mean) / (variance + 1e-5).sqrt()


@pytest.mark.parametrize("device", ["cpu", ON_GPU])
@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float64, 1e-12), (torch.bfloat16, 0.02)])
def test_instance_norm_has_the_formulas_values_and_gradients(device: str, dtype: torch.dtype, tolerance: float) -> None:
    """On a GPU also a check of the installed torch."""
    norm = InstanceNorm(4)
    pairs = [*((layout, layout) for layout in LAYOUTS), *permutations(("contiguous", "channels-last"))]
    for n, (x_layout, gradient_layout) in product((1, 2), pairs):
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
        in_evaluation = InstanceNorm(4).eval()(x).double()
        assert (in_evaluation - results[1][0]).norm() < tolerance * results[1][0].norm()


@pytest.mark.parametrize("sampling", [{}, {"downsample": "antialiased", "upsample": "antialiased"}])
@pytest.mark.parametrize("device", ["cpu", ON_GPU])
def test_a_network_has_the_same_gradients_in_both_layouts(device: str, sampling: dict[str, Any]) -> None:
    gradients, sizes = [], {"in_channels": 3, "base_channels": 4, "n_downsamplings": 2, "n_blocks": 1}
    for layout in (torch.contiguous_format, torch.channels_last):
        torch.manual_seed(0)
        network = GENERATORS["global"](**sizes, **sampling)
        network.to(device, torch.float64).to(memory_format=layout)
        image = torch.rand(1, 3, 16, 16, dtype=torch.float64, device=device).contiguous(memory_format=layout)
        network(image).square().mean().backward()
        gradients.append([parameter.grad for parameter in network.parameters()])
    torch.testing.assert_close(*gradients, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("name", ["global", "local"])
def test_an_image_of_one_colour_is_translated_into_one_colour(name: str) -> None:
    """The norm of its stem makes zeros of it, and not noise of the rounding errors of its convolution."""
    torch.manual_seed(0)
    network = GENERATORS[name](in_channels=3, base_channels=4, n_downsamplings=2, n_blocks=1).eval()
    bias = network.get_submodule("head.1").bias
    assert isinstance(bias, torch.Tensor)
    with torch.no_grad():
        bias.uniform_(-1, 1)
        found = network(torch.rand(2, 3, 1, 1).expand(2, 3, 32, 40))
    assert torch.equal(found, bias.tanh().view(1, 3, 1, 1).expand_as(found))


PADDING = {"reflect": "reflect", "zeros": "constant"}


def in_three_steps(layer: UpsampledConv2d, x: Tensor) -> Tensor:
    enlarged = F.interpolate(x, scale_factor=2, mode="nearest")
    return F.conv2d(F.pad(enlarged, (1, 1, 1, 1), mode=PADDING[layer.border]), layer.weight, layer.bias)


@pytest.mark.parametrize("border", ["reflect", "zeros"])
@pytest.mark.parametrize("height", [1, 5])
def test_an_upsampled_convolution_equals_upsampling_padding_and_convolution(border: Border, height: int) -> None:
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


@pytest.mark.parametrize(
    ("layer", "inputs"),
    [
        (UpsampledConv2d(3, 4), [torch.randn(1, 3, 4, 4)]),
        (PairConv2d(3, 4, kernel_size=3), [torch.randn(1, 2, 8, 8), torch.randn(1, 1, 8, 8)]),
        (
            GENERATORS["global"](in_channels=3, base_channels=4, n_blocks=1, upsample="nearest"),
            [torch.randn(1, 3, 32, 32)],
        ),
    ],
)
def test_a_pass_reads_each_weight_once_so_that_spectral_norm_iterates_once(
    layer: nn.Module, inputs: list[Tensor]
) -> None:
    norms = list(spectral_norms(add_spectral_norm(layer)))
    reads: list[nn.Module] = []
    for norm in norms:
        norm.register_forward_hook(lambda norm, *_: reads.append(norm))
    layer(*inputs)
    assert len(reads) == len(norms) == len(set(reads))


@pytest.mark.parametrize("layer", [ReflectionPadding(1), InstanceNorm(4), AntialiasedDownsampling()])
def test_on_a_cpu_channels_last_images_keep_their_layout_and_dtype(layer: nn.Module) -> None:
    x = torch.randn(2, 4, 8, 8, dtype=torch.bfloat16).contiguous(memory_format=torch.channels_last)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        found = layer(x)
    assert found.dtype == torch.bfloat16
    assert found.is_contiguous(memory_format=torch.channels_last)
    torch.testing.assert_close(found.float(), layer(x.float()), rtol=2e-2, atol=2e-2)


def test_a_pair_convolution_is_the_convolution_of_source_and_image_concatenated() -> None:
    torch.manual_seed(0)
    convolution = PairConv2d(5, 4, kernel_size=4, stride=2, padding=2).double()
    source, images = torch.randn(2, 3, 9, 8).double(), torch.randn(6, 2, 9, 8).double().requires_grad_()
    joined = torch.cat([torch.cat([source] * 3), images], dim=1)
    expected = F.conv2d(joined, convolution.weight, convolution.bias, stride=2, padding=2)
    found = convolution(source, images)
    torch.testing.assert_close(found, expected)
    inputs = [images, *convolution.parameters()]
    weight = torch.randn_like(expected)
    gradients = [torch.autograd.grad((result * weight).sum(), inputs) for result in (found, expected)]
    torch.testing.assert_close(*gradients)


def test_every_network_has_our_instance_norm_and_reflection_padding() -> None:
    with torch.device("meta"):
        networks: list[nn.Module] = [
            *(DISCRIMINATORS[name](source_channels=3, norm="instance") for name in ("multiscale_patch", "pixel")),
            *(make(in_channels=3, norm="instance") for make in GENERATORS.values()),
            StyleEncoder(),
        ]
    for network in networks:
        layers = [m for m in network.modules() if isinstance(m, nn.InstanceNorm2d | nn.ReflectionPad2d)]
        assert any(isinstance(layer, InstanceNorm) for layer in layers)
        assert all(type(layer) in (InstanceNorm, ReflectionPadding) for layer in layers), type(network)
    assert [type(layer) for layer in AntialiasedDownsampling().children()] == [ReflectionPadding]
