"""SPADE's generator, and the reduction of its condition."""

from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.utils.parametrize import is_parametrized

from configs.build import build_discriminator, build_generator
from configs.load import load_config
from models.spade_generator import ConditionReduction, SpadeGenerator
from tests.runs import SPADE


@pytest.mark.parametrize(("n_upsamplings", "n_middle_blocks"), [(2, 2), (4, 2), (6, 2), (7, 2), (2, 1), (5, 1)])
def test_the_output_has_the_sides_of_the_source(n_upsamplings: int, n_middle_blocks: int) -> None:
    network = SpadeGenerator(
        in_channels=3, base_channels=2, n_upsamplings=n_upsamplings, n_middle_blocks=n_middle_blocks, hidden_channels=2
    )
    multiple = 2**n_upsamplings
    assert network(torch.randn(1, 3, multiple, 2 * multiple)).shape == (1, 3, multiple, 2 * multiple)
    if n_middle_blocks == 1:  # one block at each resolution
        assert len(network.blocks) == n_upsamplings + 1


@pytest.mark.parametrize("network", ["generator", "discriminator"])
def test_normed_convolutions_keep_torchs_initial_weights(tiny_config: Path, network: str) -> None:
    """As in SPADE's runs; with xavier and 0.02 a step would change them by half."""
    wide = ["generator.base_channels=16", "generator.hidden_channels=64", "discriminator.base_channels=32"]
    config = load_config(tiny_config, [*SPADE, *wide])
    torch.manual_seed(0)
    built = build_generator(config) if network == "generator" else build_discriminator(config)
    n_normed = 0
    for name, module in built.named_modules():
        if not isinstance(module, nn.Conv2d):
            continue
        assert module.bias is None or not module.bias.any(), name
        weight: Tensor = module.parametrizations.weight.original if is_parametrized(module) else module.weight  # type: ignore[union-attr,assignment]
        fan_in = weight[0].numel()
        fans = fan_in + weight.shape[0] * weight[0, 0].numel()
        expected = (1 / (3 * fan_in)) ** 0.5 if is_parametrized(module) else 0.02 * (2 / fans) ** 0.5
        n_normed += is_parametrized(module)
        assert weight.std().item() == pytest.approx(expected, rel=0.2), name
    assert n_normed == (12 if network == "generator" else 4)


def test_other_networks_are_initialised_in_every_layer(tiny_config: Path) -> None:
    config = load_config(tiny_config, ["init.distribution=xavier", "generator.spectral_norm=true"])
    network = build_generator(config)
    original = network.get_parameter("blocks.0.body.1.parametrizations.weight.original")
    assert original.std().item() < 0.01


@pytest.mark.parametrize(
    ("n_noise_channels", "n_image_channels", "factor"),
    [(0, 0, 2), (2, 0, 8), (0, 3, 1), (2, 3, 2), (0, 6, 2), (3, 3, 8)],
)
def test_images_are_resized_by_area_and_maps_by_the_nearest_pixel(
    n_noise_channels: int, n_image_channels: int, factor: int
) -> None:
    condition = torch.randn(2, 6, 16, 24, dtype=torch.float64)
    reduction = ConditionReduction(factor, n_noise_channels=n_noise_channels, n_image_channels=n_image_channels)
    found = reduction(condition)
    size = (16 // factor, 24 // factor)
    end = n_noise_channels + n_image_channels
    by_area = F.interpolate(condition, size=size, mode="area")
    nearest = F.interpolate(condition, size=size, mode="nearest")
    torch.testing.assert_close(found[:, n_noise_channels:end], by_area[:, n_noise_channels:end])
    assert torch.equal(found[:, :n_noise_channels], nearest[:, :n_noise_channels])
    assert torch.equal(found[:, end:], nearest[:, end:])
