import re
from pathlib import Path

import pytest

from configs.build import build_preprocessing, check_sizes, check_trained_sizes, image_sides, trained_side
from configs.load import load_config
from data.preprocessing import LeastSide
from models.generator import ImageSides
from utils.errors import ConfigError

ROOT_CONFIG = Path("configs/demo.yaml")
FULL_SIZE = ["generator.n_downsamplings=4"]
FILES = ["data.layout=paired_folders", "data.root=.", "data.n_classes=5"]
LOADED = [*FILES, "generator.name=global", "generator.scale=0.25", "data.preprocess=resize_and_crop"]


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        (["generator.name=local", "generator.n_enhancers=2"], ImageSides(64, 128)),
        (["features.n_channels=3", "features.n_downsamplings=5"], ImageSides(32, 64)),
    ],
)
def test_sides_follow_from_the_networks(settings: list[str], expected: ImageSides) -> None:
    assert image_sides(load_config(ROOT_CONFIG, [*FULL_SIZE, *settings])) == expected


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (["generator.name=spade", "generator.n_upsamplings=7", "generator.base_channels=3"], "base_channels is 3"),
        (["generator.name=unet", "generator.n_downsamplings=4"], "n_downsamplings is 4, expected at least 5"),
        (
            [*FILES, "generator.name=global", "generator.scale=0.5", "generator.skips=full"],
            "skips is full, expected none or",
        ),
    ],
)
def test_a_generator_refuses_settings_that_it_does_not_support(settings: list[str], message: str) -> None:
    with pytest.raises(ConfigError, match=re.escape(message)):
        load_config(ROOT_CONFIG, settings)


def test_methods_without_pairs_refuse_generators_of_label_maps() -> None:
    unpaired = ["data.layout=synthetic_day_night", "data.instance_edges=false", "loss.l1=0", "method.name=cycle"]
    with pytest.raises(ConfigError, match=r"generator\.name is spade, expected one of global, local, unet"):
        load_config(ROOT_CONFIG, [*unpaired, "generator.name=spade"])


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (
            ["data.preprocess=scale_width", "data.load_width=1000"],
            "data.load_width is 1000, expected a multiple of 16, at least 32, for this generator; for instance 992",
        ),
        (["data.preprocess=crop", "data.crop_height=16"], "data.crop_height is 16, expected a multiple of 16"),
        ([*LOADED, "data.load_width=1026"], "load_width is 1026, expected a multiple of 4 with generator.scale=0.25"),
    ],
)
def test_a_size_that_the_generator_does_not_take_is_refused(settings: list[str], message: str) -> None:
    config = load_config(ROOT_CONFIG, [*FULL_SIZE, *settings])
    for check in (check_sizes, build_preprocessing):
        with pytest.raises(ConfigError, match=re.escape(message)):
            check(config)


OF_PIX2PIX = "discriminator.n_layers=3 discriminator.n_scales=1 discriminator.padding=1"
PATCHES_OF_70 = ["loss.perceptual=0", *OF_PIX2PIX.split()]
SMALL = ["generator.name=global", "generator.n_downsamplings=2"]


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        (PATCHES_OF_70, LeastSide(24, OF_PIX2PIX)),
        ([*FILES, *PATCHES_OF_70, "generator.scale=2"], LeastSide(12, f"{OF_PIX2PIX} generator.scale=2")),
        (["discriminator.n_scales=1", "loss.perceptual=3"], LeastSide(16, "loss.perceptual=3")),
    ],
)
def test_the_least_side_is_that_of_all_networks_that_see_the_target(settings: list[str], expected: LeastSide) -> None:
    assert trained_side(load_config(ROOT_CONFIG, [*SMALL, *settings])) == expected


@pytest.mark.parametrize(
    ("settings", "key"),
    [
        (["data.preprocess=crop", "data.crop_width=16"], "crop_width"),
        (["data.preprocess=scale_width", "data.load_width=16"], "load_width"),
    ],
)
def test_a_size_that_cannot_be_trained_on_is_refused_where_it_is_trained_on(settings: list[str], key: str) -> None:
    settings = [*SMALL, *PATCHES_OF_70, *settings]
    config = load_config(ROOT_CONFIG, settings)
    build_preprocessing(config)  # translations may have this size
    message = f"data.{key} is 16, expected at least 24 with {OF_PIX2PIX}"
    with pytest.raises(ConfigError, match=re.escape(message)):
        check_trained_sizes(config)
    check_trained_sizes(load_config(ROOT_CONFIG, [*settings, f"data.{key}=24"]))
