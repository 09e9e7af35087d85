"""The declaration of a method: the settings that it refuses, and those that are its own."""

from dataclasses import replace
from typing import Any, get_args, get_type_hints

import pytest

from configs.build import build_conditioning, build_discriminator
from configs.schema import (
    Config,
    DataConfig,
    DiscriminatorConfig,
    LossConfig,
    MethodConfig,
    MetricsConfig,
    StyleConfig,
    TrainConfig,
)
from configs.schema.augmentation import PairAugmentationConfig
from configs.schema.method import METHODS, MethodDeclaration, Refusal
from training.methods import METHODS as BUILDERS
from utils.errors import ConfigError

PAIRS = "folders of either side, since sides are read one by one"
UNPAIRED = MethodDeclaration(
    {"AtoB": "generator"},
    sections=("style",),
    refusals=(
        Refusal("loss.l1", "0: there is no target to compare with"),
        Refusal("data.layout", PAIRS, values=("side_by_side",)),
        Refusal("data.augment", "its default: the sides are augmented one by one"),
        Refusal("metrics.extra", "metrics without targets", values=("lpips",)),
    ),
    discriminates_pairs=False,
)


@pytest.fixture
def _unpaired(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(METHODS, "unpaired", UNPAIRED)


def method(name: str) -> MethodConfig:
    return replace(MethodConfig(), name=name)  # type: ignore[arg-type]


@pytest.mark.usefixtures("_unpaired")
@pytest.mark.parametrize(
    ("section", "message"),
    [
        (
            {"loss": LossConfig(l1=10)},
            r"loss\.l1 is 10.*, expected 0: .* target .*\(method\.name=unpaired\)$",
        ),
        ({"data": DataConfig(layout="side_by_side", root=".")}, r"data\.layout is side_by_side, expected folders"),
        (
            {"data": DataConfig(augment=PairAugmentationConfig(hue=[0.1, 0.2]))},
            r"data\.augment\.hue is .*, expected its",
        ),
        ({"metrics": MetricsConfig(extra=["fid", "lpips"])}, r"metrics\.extra is .*, expected metrics without"),
    ],
    ids=["setting", "value", "section", "list"],
)
def test_what_a_method_refuses_is_an_error_that_gives_the_reason(section: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        Config(method=method("unpaired"), **section)


@pytest.mark.usefixtures("_unpaired")
def test_a_section_of_another_method_is_refused_and_its_own_is_not() -> None:
    message = r"^style\.size is \[16, 8\], expected its default, since it is a setting of method\.name=unpaired"
    with pytest.raises(ConfigError, match=message):
        Config(style=StyleConfig(size=[16, 8]))
    Config(method=method("unpaired"), style=StyleConfig(size=[16, 8]))


@pytest.mark.usefixtures("_unpaired")
def test_what_a_method_takes_is_not_refused() -> None:
    Config(method=method("unpaired"), metrics=MetricsConfig(extra=["fid"]), train=TrainConfig(pool_size=50))


@pytest.mark.usefixtures("_unpaired")
def test_discriminators_see_the_image_alone_where_a_method_has_no_pairs() -> None:
    small = DiscriminatorConfig(base_channels=2)
    channels = {
        name: build_discriminator(Config(method=method(name), discriminator=small)).get_parameter(
            "scales.0.layers.0.0.weight"
        )
        for name in ("unpaired", "paired")
    }
    both = 3 + build_conditioning(Config()).channels
    assert {name: weight.shape[1] for name, weight in channels.items()} == {"unpaired": 3, "paired": both}


def test_each_method_is_declared_and_built() -> None:
    assert set(METHODS) == set(BUILDERS) == set(get_args(get_type_hints(MethodConfig)["name"]))
