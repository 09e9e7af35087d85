"""Each network of the registries has the rules of its settings, takes the sizes that they state, and is the original's.

At full size it has the parameters of the original, less the biases that this has before norms.
"""

import inspect
from collections.abc import Callable
from dataclasses import fields
from functools import partial
from typing import Any, get_args

import pytest
import torch
from torch import nn

from configs.schema import DiscriminatorConfig, GeneratorConfig
from models import DISCRIMINATORS, GENERATORS
from models.blocks import Downsample, Norm
from models.generator import ImageSides
from models.global_generator import GlobalGenerator, LocalEnhancer
from models.patch_discriminator import MultiscalePatchDiscriminator
from models.segmentation_discriminator import SegmentationDiscriminator
from models.spade_generator import SpadeGenerator
from models.style_encoder import StyleEncoder
from models.unet_generator import UnetGenerator
from utils.signatures import argument_names


@pytest.mark.parametrize("name", GENERATORS)
def test_a_generators_arguments_are_settings_of_its_section(name: str) -> None:
    settings = {setting.name for setting in fields(GeneratorConfig)}
    arguments = inspect.signature(GENERATORS[name]).parameters.keys()
    assert {"in_channels", "out_channels"} < arguments
    of_style = {"style_channels", "style_height", "style_width"}
    assert (
        arguments - {"in_channels", "out_channels", "n_image_channels", "n_label_channels", "biased_downs"}
        <= settings | of_style
    )
    rules = (GENERATORS[name].image_sides, GENERATORS[name].without_effect, GENERATORS[name].unsupported)
    for rule in rules:
        assert argument_names(rule) <= arguments


@pytest.mark.parametrize("name", DISCRIMINATORS)
def test_a_discriminators_arguments_are_settings_of_its_section(name: str) -> None:
    settings = {setting.name for setting in fields(DiscriminatorConfig)}
    arguments = inspect.signature(DISCRIMINATORS[name]).parameters.keys()
    assert "image_channels" in arguments
    assert arguments - {"source_channels", "image_channels", "n_classes", "max_channels", "downsample"} <= settings
    assert argument_names(DISCRIMINATORS[name].least_side) <= arguments


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


BESIDE_BLOCKS = 2 * (64 + 128 + 256 + 512) + 1024  # channels of pix2pixHD's convolutions before norms
FULL_SIZE: list[tuple[Callable[[], nn.Module], int, int]] = [
    (partial(GlobalGenerator, in_channels=36), 182_546_755, BESIDE_BLOCKS + 9 * 2 * 1024),
    (partial(LocalEnhancer, in_channels=36), 182_857_059, BESIDE_BLOCKS + 9 * 2 * 1024 + 2 * 32 + 7 * 64),
    (partial(UnetGenerator, in_channels=3), 54_413_955, 0),
    (partial(UnetGenerator, in_channels=3, n_downsamplings=7), 41_828_995, 0),
    (partial(SpadeGenerator, in_channels=151, n_middle_blocks=1, noise_channels=64), 74_314_691, 64 * 47),
    (StyleEncoder, 10_463_424, 0),
    (partial(MultiscalePatchDiscriminator, source_channels=36), 5_603_202, 2 * (128 + 256 + 512)),
    (partial(SegmentationDiscriminator, n_classes=151), 22_258_904, 0),
]


@pytest.mark.parametrize(("make", "n_original", "n_biases_before_norms"), FULL_SIZE)
def test_the_full_size_has_the_originals_parameters(
    make: Callable[[], nn.Module], n_original: int, n_biases_before_norms: int
) -> None:
    with torch.device("meta"):
        network = make()
    assert sum(parameter.numel() for parameter in network.parameters()) == n_original - n_biases_before_norms
