"""Generators whose output is larger or smaller than their input, or without bounds."""

from typing import Any, get_args

import pytest
import torch
from torch import nn

from models import unet_generator
from models.blocks import Upsample
from models.global_generator import GlobalGenerator, LocalEnhancer
from models.spade_generator import SpadeGenerator
from models.unet_generator import UnetGenerator

SMALL: dict[str, Any] = {"in_channels": 3, "base_channels": 4}
GLOBAL: dict[str, Any] = {**SMALL, "n_downsamplings": 2, "n_blocks": 1}
UNET: dict[str, Any] = {**SMALL, "n_downsamplings": 5}
SCALES = [0.25, 0.5, 2.0, 4.0]


CASES = [
    *((GlobalGenerator, GLOBAL, *case) for case in zip(SCALES * 2, get_args(Upsample), strict=False)),
    *(
        (UnetGenerator, UNET, *case)
        for case in zip([1.0, *SCALES], get_args(unet_generator.Upsample) * 2, strict=False)
    ),
]


@pytest.mark.parametrize(("network", "sizes", "scale", "upsample"), CASES)
def test_generators_have_every_scale(network: Any, sizes: dict[str, Any], scale: float, upsample: str) -> None:
    generator = network(**sizes, scale=scale, upsample=upsample)
    sides = {"n_downsamplings": sizes["n_downsamplings"]} | ({"scale": scale} if network is GlobalGenerator else {})
    minimum = network.image_sides(**sides).minimum
    output = generator(torch.randn(2, 3, minimum, 2 * minimum + 32))
    assert output.shape == (2, 3, round(minimum * scale), round((2 * minimum + 32) * scale))
    assert output.abs().max() <= 1
    output.square().mean().backward()
    assert all(parameter.grad is not None and parameter.grad.isfinite().all() for parameter in generator.parameters())


@pytest.mark.parametrize(
    ("generator", "with_tanh"),
    [
        (GlobalGenerator(**GLOBAL, output="linear"), GlobalGenerator(**GLOBAL)),
        (LocalEnhancer(**GLOBAL, output="linear"), LocalEnhancer(**GLOBAL)),
        (UnetGenerator(**UNET, dropout=False, output="linear"), UnetGenerator(**UNET, dropout=False)),
        (SpadeGenerator(**SMALL, n_upsamplings=3, output="linear"), SpadeGenerator(**SMALL, n_upsamplings=3)),
    ],
)
def test_a_linear_output_is_the_input_of_tanh(generator: nn.Module, with_tanh: nn.Module) -> None:
    with_tanh.load_state_dict(generator.state_dict())
    source = torch.randn(1, 3, 32, 32)
    with torch.no_grad():
        for parameter in (*generator.parameters(), *with_tanh.parameters()):
            parameter.mul_(3)
        linear, bounded = generator.eval()(source), with_tanh.eval()(source)
    assert linear.abs().max() > 1
    assert torch.allclose(linear.tanh(), bounded)


def test_dropout_is_noise_in_training_and_none_in_evaluation() -> None:
    generator = UnetGenerator(in_channels=3, base_channels=2, n_downsamplings=6, norm="instance")
    source = torch.randn(1, 3, 128, 128)
    assert not torch.equal(generator(source), generator(source))
    generator.eval()
    assert torch.equal(generator(source), generator(source))
