"""The section `data`: where a data set may be, and how its pairs are augmented."""

import re
from pathlib import Path

import pytest

from configs import build
from configs.load import load_config
from configs.schema.data import PairAugmentationConfig
from data.pair_augmentation import PairAugmentation
from utils.errors import ConfigError


@pytest.mark.parametrize(
    ("setting", "problem"),
    [
        ("rotation_degrees=[-200,0]", "is [-200.0, 0.0], expected [lowest,highest] from -180 to 180, or [] for none"),
        ("scale=[1.2,0.8]", "is [1.2, 0.8], expected [lowest,highest] from 0.5 to 2"),
        ("scale=[1.2]", "is [1.2], expected [lowest,highest]"),
        ("elastic=[0,0.2]", "is [0.0, 0.2], expected [lowest,highest] from 0 to 0.12"),
        ("color=[-1,1]", "is [-1.0, 1.0], expected [lowest,highest] from 0 to 4"),
        ("noise=[0,nan]", "is [0.0, nan], expected [lowest,highest] from 0 to 0.5"),
        ("noise=0.1", "is 0.1, expected a list of numbers such as [1,2]"),
    ],
)
def test_a_wrong_range_is_named(tiny_config: Path, setting: str, problem: str) -> None:
    with pytest.raises(ConfigError, match=re.escape(f"data.augment.{setting.partition('=')[0]} {problem}")):
        load_config(tiny_config, [f"data.augment.{setting}"])


def test_quarter_turns_need_a_square_crop(tiny_config: Path) -> None:
    settings = ["data.preprocess=crop", "data.crop_width=64", "data.augment.quarter_turns=true"]
    assert load_config(tiny_config, [*settings, "data.crop_height=64"]).data.augment.quarter_turns
    with pytest.raises(ConfigError, match=r"expected false where the crop is not square: it is 64x32"):
        load_config(tiny_config, [*settings, "data.crop_height=32"])


def test_the_settings_reach_the_samples_under_their_names(tiny_config: Path) -> None:
    settings = ["data.augment.rotation_degrees=[-10,10]", "data.augment.noise=[0.1,0.2]"]
    augmentation = build.build_preprocessing(load_config(tiny_config, settings)).augmentation
    drawn = {"rotation_degrees": [-10, 10], "noise": [0.1, 0.2]}
    assert augmentation == PairAugmentation(**(vars(PairAugmentationConfig()) | drawn))
    assert build.build_preprocessing(load_config(tiny_config)).augmentation is None
