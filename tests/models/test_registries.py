"""The registries of networks, the configuration's names for them, and the sizes that the generators take."""

import inspect
from dataclasses import fields
from typing import get_args, get_type_hints

import pytest
import torch

from configs.image_sides import image_sides
from configs.schema import Config, DiscriminatorConfig, GeneratorConfig
from models import DISCRIMINATORS, GENERATORS
from models.generator import ImageSides
from utils.signatures import argument_names


def test_the_names_are_those_of_the_schema() -> None:
    assert set(GENERATORS) == set(get_args(get_type_hints(GeneratorConfig)["name"]))
    assert set(DISCRIMINATORS) == set(get_args(get_type_hints(DiscriminatorConfig)["name"]))


@pytest.mark.parametrize("name", GENERATORS)
def test_a_generators_arguments_are_settings_of_its_section(name: str) -> None:
    settings = {setting.name for setting in fields(GeneratorConfig)}
    arguments = inspect.signature(GENERATORS[name]).parameters.keys()
    assert {"in_channels", "out_channels"} < arguments
    of_style = {"style_channels", "style_height", "style_width"}
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


@pytest.mark.parametrize(
    ("name", "settings", "expected"),
    [
        ("global", {"n_downsamplings": 4}, ImageSides(multiple=16, minimum=32)),
        ("global", {"n_downsamplings": 2}, ImageSides(multiple=4, minimum=8)),
        ("local", {"n_downsamplings": 4, "n_enhancers": 1}, ImageSides(multiple=32, minimum=64)),
        ("local", {"n_downsamplings": 3, "n_enhancers": 2}, ImageSides(multiple=32, minimum=64)),
        ("unet", {"n_downsamplings": 8}, ImageSides(multiple=256, minimum=256)),
        ("spade", {"n_upsamplings": 5}, ImageSides(multiple=32, minimum=64)),
    ],
)
def test_sides_follow_from_the_halvings(name: str, settings: dict[str, int], expected: ImageSides) -> None:
    assert GENERATORS[name].image_sides(**settings) == expected


@pytest.mark.parametrize(
    ("name", "settings"),
    [
        ("global", {"n_downsamplings": 2}),
        ("local", {"n_downsamplings": 1, "n_enhancers": 2}),
        ("unet", {"n_downsamplings": 5}),
        ("spade", {"n_upsamplings": 3}),
    ],
)
def test_a_generator_trains_on_its_least_sides(name: str, settings: dict[str, int]) -> None:
    sides = GENERATORS[name].image_sides(**settings)
    generator = GENERATORS[name](in_channels=1, base_channels=2, norm="instance", **settings)
    for height, width in ((sides.minimum, sides.minimum), (sides.minimum, sides.minimum + sides.multiple)):
        assert generator(torch.randn(1, 1, height, width)).shape == (1, 3, height, width)


@pytest.mark.parametrize(
    ("name", "settings"),
    [
        ("global", {"n_downsamplings": 2}),
        ("local", {"n_downsamplings": 2, "n_enhancers": 1}),
        ("spade", {"n_upsamplings": 3}),
    ],
)
def test_smaller_sides_fail(name: str, settings: dict[str, int]) -> None:
    sides = GENERATORS[name].image_sides(**settings)
    generator = GENERATORS[name](in_channels=1, base_channels=2, **settings)
    with pytest.raises((RuntimeError, ValueError)):
        generator(torch.randn(1, 1, sides.multiple, sides.multiple))
