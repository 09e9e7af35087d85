import pytest
import torch

from models.instance_features import FeatureConditionedGenerator, FeatureEncoder
from models.local_enhancer import LocalEnhancer


@pytest.mark.parametrize("n_enhancers", [1, 2])
def test_the_local_enhancer_has_as_many_levels_as_wanted(n_enhancers: int) -> None:
    generator = LocalEnhancer(
        in_channels=4, base_channels=2, n_downsamplings=2, n_blocks=1, n_enhancers=n_enhancers, n_enhancer_blocks=1
    )
    assert generator(torch.randn(1, 4, 32, 64)).shape == (1, 3, 32, 64)
    assert generator.trunk.stem[1].out_channels == 2 * 2**n_enhancers


def test_the_full_size_local_enhancer_has_the_originals_parameters() -> None:
    with torch.device("meta"):
        generator = LocalEnhancer(in_channels=36)
    biases = sum(
        module.out_channels
        for name, module in generator.named_modules()
        if isinstance(module, torch.nn.Conv2d | torch.nn.ConvTranspose2d) and name != "head.1"
    )
    assert sum(parameter.numel() for parameter in generator.parameters()) + biases == 182_857_059


@pytest.mark.parametrize("n_enhancers", [1, 2])
def test_the_coarse_parts_are_all_but_the_finest_enhancer_and_the_head(n_enhancers: int) -> None:
    generator = LocalEnhancer(in_channels=4, base_channels=2, n_downsamplings=1, n_blocks=1, n_enhancers=n_enhancers)
    names = {name for name, _ in generator.named_parameters()}
    fine = {name for name in names if not name.startswith(tuple(f"{part}." for part in generator.coarse_parts))}
    assert fine == {name for name in names if name.startswith((f"enhancers.{n_enhancers - 1}.", "head."))}


def test_with_an_encoder_the_coarse_parts_are_those_of_its_generator() -> None:
    generator = LocalEnhancer(in_channels=4, base_channels=2, n_downsamplings=1, n_blocks=1, n_enhancers=2)
    conditioned = FeatureConditionedGenerator(generator, FeatureEncoder(base_channels=2, n_downsamplings=1))
    assert conditioned.coarse_parts == ["generator.trunk", "generator.enhancers.0"]
    names = [name for name, _ in conditioned.named_parameters()]
    assert all(any(name.startswith(f"{part}.") for name in names) for part in conditioned.coarse_parts)
