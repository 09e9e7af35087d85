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


@pytest.mark.parametrize(("scale", "upsample"), [*zip(SCALES * 2, get_args(Upsample), strict=False)])
def test_a_global_generator_has_every_scale(scale: float, upsample: Upsample) -> None:
    generator = GlobalGenerator(**GLOBAL, scale=scale, upsample=upsample)
    check(generator, scale, GlobalGenerator.image_sides(n_downsamplings=2, scale=scale).minimum)


@pytest.mark.parametrize(
    ("scale", "upsample"), [*zip([1.0, *SCALES], get_args(unet_generator.Upsample) * 2, strict=False)]
)
def test_a_unet_has_every_scale(scale: float, upsample: unet_generator.Upsample) -> None:
    generator = UnetGenerator(**UNET, scale=scale, upsample=upsample)
    check(generator, scale, UnetGenerator.image_sides(n_downsamplings=5).minimum)


def check(generator: nn.Module, scale: float, minimum: int) -> None:
    source = torch.randn(2, 3, minimum, 2 * minimum + 32)
    output = generator(source)
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
def test_a_linear_output_is_that_before_tanh(generator: nn.Module, with_tanh: nn.Module) -> None:
    with_tanh.load_state_dict(generator.state_dict())
    source = torch.randn(1, 3, 32, 32)
    with torch.no_grad():
        for parameter in (*generator.parameters(), *with_tanh.parameters()):
            parameter.mul_(3)
        linear, bounded = generator.eval()(source), with_tanh.eval()(source)
    assert linear.abs().max() > 1
    assert torch.allclose(linear.tanh(), bounded)
