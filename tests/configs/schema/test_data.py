"""The section `data`: where a data set may be, and how its pairs are augmented."""

import re
from pathlib import Path

import pytest

from configs import build
from configs.load import load_config
from configs.schema import DataConfig
from configs.schema.data import PairAugmentationConfig
from data.pair_augmentation import NO_AUGMENTATION
from utils.errors import ConfigError


@pytest.mark.parametrize(
    ("address", "message"),
    {
        "ftp://host/a": "ftp://...: expected http://HOST/PATH, https://HOST/PATH, s3://BUCKET/PATH or gs://BUCKET/PATH.",
        "HTTP://host/a": "HTTP://...: expected",
        "http:///a": "http://...: expected",
        "simplecache::http://u:secret@host/a": "simplecache://...: expected",
        "http://x::http://host/a": "http://...: expected",
        "pipe:curl -u u:secret http://host/a": "pipe://...: expected",
        "https://u:secret@host/a": "https://host/a: holds a password or a query, which a run would store. Remove it; ",
        "https://host/a?signature=secret": "https://host/a: holds a password or a query, ",
        "https://u:sec/ret@host/a": "https://host/a: holds a password or a query, ",
        "https://host/a#secret": "https://host/a: holds a password or a query, ",
        "s3://u:secret@bucket/a": "s3://bucket/a: holds a password or a query, which a run would store. Remove it; "
        "give credentials by AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or ~/.aws.",
        "https://host/a/../b": "https://host/a/../b: has .. in its path. Remove it.",
    }.items(),
)
def test_an_address_that_is_not_read_is_refused_without_showing_secrets(address: str, message: str) -> None:
    with pytest.raises(ConfigError) as raised:
        DataConfig(root=address)
    assert str(raised.value).startswith(f"data.root: {message}")
    assert "sec" not in str(raised.value)


@pytest.mark.parametrize(
    ("setting", "problem"),
    [
        ("rotation_degrees=[-200,0]", "is [-200.0, 0.0], expected [lowest,highest] from -180 to 180, or [] for none"),
        ("scale=[1.2,0.8]", "is [1.2, 0.8], expected [lowest,highest] from 0.5 to 2"),
        ("scale=[1.2]", "is [1.2], expected [lowest,highest]"),
        ("shear_degrees=[0,80]", "is [0.0, 80.0], expected [lowest,highest] from -45 to 45"),
        ("elastic=[0,0.2]", "is [0.0, 0.2], expected [lowest,highest] from 0 to 0.12"),
        ("color=[-1,1]", "is [-1.0, 1.0], expected [lowest,highest] from 0 to 4"),
        ("hue=[0,nan]", "is [0.0, nan], expected [lowest,highest] from -0.5 to 0.5"),
        ("noise=[0,1]", "is [0.0, 1.0], expected [lowest,highest] from 0 to 0.5"),
        ("noise=0.1", "is 0.1, expected a list of numbers such as [1,2]"),
        ("jpeg_quality=[0,90]", "is [0, 90], expected [lowest,highest] from 1 to 100"),
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
    settings = ["data.augment.rotation_degrees=[-10,10]", "data.augment.jpeg_quality=[50,95]"]
    augmentation = build.build_preprocessing(load_config(tiny_config, settings)).augmentation
    assert (augmentation.rotation_degrees, augmentation.jpeg_quality) == ([-10, 10], [50, 95])
    assert vars(PairAugmentationConfig()).keys() == vars(NO_AUGMENTATION).keys()
    plain = build.build_preprocessing(load_config(tiny_config)).augmentation
    assert not any(vars(plain).values())
