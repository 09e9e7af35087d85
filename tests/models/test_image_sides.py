"""The sizes that generators take, beside what their forward pass accepts."""

import pytest
import torch

from models import GENERATORS
from models.generator import ImageSides


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
