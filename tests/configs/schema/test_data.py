"""The section `data`: where a data set may be, and how its pairs are augmented."""

import re
from pathlib import Path

import pytest

from configs import build
from configs.load import load_config
from data.pair_augmentation import PairAugmentation
from utils.errors import ConfigError


@pytest.mark.parametrize(
    ("setting", "problem"),
    [
        ("rotation_degrees=[-200,0]", "is [-200.0, 0.0], expected [lowest,highest] from -180 to 180, or [] for none"),
        ("zoom=[1.2,0.8]", "is [1.2, 0.8], expected [lowest,highest] from 0.5 to 2"),
        ("elastic=[0,0.2]", "is [0.0, 0.2], expected [lowest,highest] from 0 to 0.12"),
    ],
)
def test_a_wrong_range_is_named(tiny_config: Path, setting: str, problem: str) -> None:
    with pytest.raises(ConfigError, match=re.escape(f"data.{setting.partition('=')[0]} {problem}")):
        load_config(tiny_config, [f"data.{setting}"])


def test_the_settings_reach_the_samples_under_their_names(tiny_config: Path) -> None:
    settings = ["data.rotation_degrees=[-10,10]", "data.zoom=[0.5,2]", "data.elastic=[0,0.1]"]
    config = load_config(tiny_config, [*settings, "data.quarter_turns=true"])
    augmentation = build.build_preprocessing(config).augmentation
    assert augmentation == PairAugmentation(
        rotation_degrees=[-10, 10], scale=[0.5, 2], elastic=[0, 0.1], quarter_turns=True
    )
    assert build.build_preprocessing(load_config(tiny_config)).augmentation is None
