"""Each network of the registries has the rules of its settings and accepts the sizes that they state."""

import inspect
from dataclasses import fields
from typing import Any, get_args

import pytest
import torch

from configs.schema import DiscriminatorConfig, GeneratorConfig
from models import DISCRIMINATORS, GENERATORS
from models.blocks import Downsample, Norm
from models.generator import ImageSides
from utils.signatures import argument_names

NO_SETTINGS = {
    *("in_channels", "out_channels", "n_image_channels", "n_label_channels", "biased_downs", "n_classes"),
    *(
        "source_channels",
        "image_channels",
        "max_channels",
        "downsample",
        "style_channels",
        "style_height",
        "style_width",
    ),
}


@pytest.mark.parametrize(("section", "network"), [
    *((GeneratorConfig, network) for network in GENERATORS.values()),
    *((DiscriminatorConfig, network) for network in DISCRIMINATORS.values()),
])  # fmt: skip
def test_arguments_of_a_network_and_of_its_rules_are_settings_of_its_section(section: Any, network: Any) -> None:
    arguments = inspect.signature(network).parameters.keys()
    assert arguments - NO_SETTINGS <= {setting.name for setting in fields(section)}
    for rule in ("image_sides", "without_effect", "unsupported", "least_side"):
        assert argument_names(getattr(network, rule, lambda: None)) <= arguments


@pytest.mark.parametrize(
    ("name", "settings", "expected"),
    [
        ("global", {"n_downsamplings": 2}, ImageSides(multiple=4, minimum=8)),
        ("local", {"n_downsamplings": 1, "n_enhancers": 2}, ImageSides(multiple=8, minimum=16)),
        ("local", {"n_downsamplings": 2, "n_enhancers": 1}, ImageSides(multiple=8, minimum=16)),
        ("unet", {"n_downsamplings": 5}, ImageSides(multiple=32, minimum=32)),
        ("spade", {"n_upsamplings": 3}, ImageSides(multiple=8, minimum=16)),
    ],
)
def test_a_generator_trains_on_its_least_sides_and_refuses_smaller_ones(
    name: str, settings: dict[str, Any], expected: ImageSides
) -> None:
    sides = GENERATORS[name].image_sides(**settings)
    assert sides == expected
    generator = GENERATORS[name](in_channels=1, base_channels=2, norm="instance", **settings)
    for height, width in ((sides.minimum, sides.minimum), (sides.minimum, sides.minimum + sides.multiple)):
        assert generator(torch.randn(1, 1, height, width)).shape == (1, 3, height, width)
    if sides.multiple < sides.minimum:
        with pytest.raises((RuntimeError, ValueError)):
            generator(torch.randn(1, 1, sides.multiple, sides.multiple))


PATCH_SETTINGS = [
    {"n_scales": n_scales, "n_layers": n_layers, "padding": padding, "downsample": downsample}
    for n_scales, n_layers, padding in ((1, 1, 2), (1, 3, 1), (2, 1, 1), (2, 3, 2), (2, 2, 3), (3, 5, 1))
    for downsample in get_args(Downsample)
]


@pytest.mark.parametrize("norm", get_args(Norm))
@pytest.mark.parametrize(
    ("name", "choices", "others"),
    [
        ("multiscale_patch", PATCH_SETTINGS, {"source_channels": 1}),
        ("pixel", [{}], {"source_channels": 1}),
        ("segmentation", [{"n_downsamplings": 1}, {"n_downsamplings": 3}], {"n_classes": 2}),
    ],
)
def test_a_discriminator_trains_on_its_least_side_and_on_none_below(
    name: str, choices: list[dict[str, Any]], others: dict[str, Any], norm: str
) -> None:
    others |= {"norm": norm} if name != "segmentation" else {}
    for settings in choices:
        network = DISCRIMINATORS[name](**settings, **others, image_channels=1, base_channels=1)
        side = DISCRIMINATORS[name].least_side(**settings)
        image = torch.randn(1, 1, side, side)
        assert all(output.logits.numel() for output in network(image, image)), settings
        smaller = image[..., 1:, 1:]
        if smaller.numel():
            with pytest.raises((RuntimeError, ValueError)):
                network(smaller, smaller)
