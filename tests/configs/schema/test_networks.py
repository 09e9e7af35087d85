"""Sections `generator` and `discriminator` refuse what their network does not have."""

import re

import pytest

from configs.schema import DiscriminatorConfig, GeneratorConfig
from utils.errors import ConfigError


@pytest.mark.parametrize("name", ["local", "unet", "spade"])
@pytest.mark.parametrize("key", ["downsample", "upsample"])
def test_antialiasing_is_of_the_global_generator_alone(name: str, key: str) -> None:
    sizes = {"n_downsamplings": 5} if name == "unet" else {}
    expected = f"generator.{key} is antialiased, expected another value with generator.name={name}: global alone has it"
    with pytest.raises(ConfigError, match=f"^{re.escape(expected)}$"):
        GeneratorConfig(name=name, **{key: "antialiased"}, **sizes)  # type: ignore[arg-type]
    GeneratorConfig(**{key: "antialiased"})  # type: ignore[arg-type]


@pytest.mark.parametrize("name", ["pixel", "segmentation"])
def test_antialiasing_is_of_the_patch_discriminator_alone(name: str) -> None:
    expected = f"expected strided with discriminator.name={name}: multiscale_patch alone has it"
    with pytest.raises(ConfigError, match=f"^discriminator.downsample is antialiased, {re.escape(expected)}$"):
        DiscriminatorConfig(name=name, downsample="antialiased")  # type: ignore[arg-type]
    DiscriminatorConfig(downsample="antialiased")
