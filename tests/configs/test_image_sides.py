import re
from pathlib import Path

import pytest

from configs.build import build_preprocessing
from configs.image_sides import check_sizes, image_sides
from configs.load import load_config
from models.generator import ImageSides
from utils.errors import ConfigError

ROOT_CONFIG = Path("configs/demo.yaml")
FULL_SIZE = ["generator.n_downsamplings=4"]
LOADED = ["generator.name=global", "generator.scale=0.25", "data.preprocess=resize_and_crop"]


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        (["generator.name=local", "generator.n_enhancers=2"], ImageSides(64, 128)),
        (["features.n_channels=3", "features.n_downsamplings=5"], ImageSides(32, 64)),
        (["features.n_channels=3", "features.n_downsamplings=2"], ImageSides(16, 32)),
    ],
)
def test_sides_follow_from_the_networks(settings: list[str], expected: ImageSides) -> None:
    assert image_sides(load_config(ROOT_CONFIG, [*FULL_SIZE, *settings])) == expected


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (
            ["data.preprocess=scale_width", "data.load_width=1000"],
            "data.load_width is 1000, expected a multiple of 16, at least 32, for this generator; for instance 992",
        ),
        (["data.preprocess=crop", "data.crop_height=100"], "data.crop_height is 100, expected a multiple of 16"),
        (["data.preprocess=crop", "data.crop_height=16"], "data.crop_height is 16, expected a multiple of 16"),
        ([*LOADED, "data.load_width=1026"], "load_width is 1026, expected a multiple of 4 with generator.scale=0.25"),
    ],
)
def test_a_size_that_the_generator_does_not_take_is_refused(settings: list[str], message: str) -> None:
    config = load_config(ROOT_CONFIG, [*FULL_SIZE, *settings])
    for check in (check_sizes, build_preprocessing):
        with pytest.raises(ConfigError, match=re.escape(message)):
            check(config)
