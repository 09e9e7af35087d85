"""The registries of networks, and the configuration's names for them."""

import inspect
from dataclasses import fields
from typing import get_args, get_type_hints

import pytest

from configs.image_sides import image_sides
from configs.schema import Config, DiscriminatorConfig, GeneratorConfig, StyleConfig
from models import DISCRIMINATORS, GENERATORS
from utils.signatures import argument_names


def test_the_names_are_those_of_the_schema() -> None:
    assert set(GENERATORS) == set(get_args(get_type_hints(GeneratorConfig)["name"]))
    assert set(DISCRIMINATORS) == set(get_args(get_type_hints(DiscriminatorConfig)["name"]))


@pytest.mark.parametrize("name", GENERATORS)
def test_a_generators_arguments_are_settings_of_its_section(name: str) -> None:
    settings = {setting.name for setting in fields(GeneratorConfig)}
    arguments = inspect.signature(GENERATORS[name]).parameters.keys()
    assert {"in_channels", "out_channels"} < arguments
    of_style = {f"style_{setting.name}" for setting in fields(StyleConfig)}
    assert arguments - {"in_channels", "out_channels", "n_image_channels", "n_label_channels"} <= settings | of_style
    for rule in (GENERATORS[name].image_sides, GENERATORS[name].without_effect):
        assert argument_names(rule) <= arguments


@pytest.mark.parametrize("name", DISCRIMINATORS)
def test_a_discriminators_arguments_are_settings_of_its_section(name: str) -> None:
    settings = {setting.name for setting in fields(DiscriminatorConfig)}
    arguments = inspect.signature(DISCRIMINATORS[name]).parameters.keys()
    assert "image_channels" in arguments
    assert arguments - {"source_channels", "image_channels", "n_classes"} <= settings
    assert argument_names(DISCRIMINATORS[name].least_side) <= arguments


@pytest.mark.parametrize("n_downsamplings", [5, 6])
@pytest.mark.parametrize("name", GENERATORS)
def test_the_configuration_asks_for_the_generators_sides(name: str, n_downsamplings: int) -> None:
    config = Config(generator=GeneratorConfig(name=name, n_downsamplings=n_downsamplings))  # type: ignore[arg-type]
    parameters = inspect.signature(GENERATORS[name].image_sides).parameters
    sides = GENERATORS[name].image_sides(**{key: getattr(config.generator, key) for key in parameters})
    assert image_sides(config) == sides
