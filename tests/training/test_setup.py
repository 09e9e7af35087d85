"""The parts that a configuration gives, whatever the method's networks are called."""

import pytest

from tests.training.conftest import Build
from training.lr_schedule import Plateau
from utils.errors import ConfigError


def test_rates_follow_the_roles(build_fake: Build) -> None:
    training = build_fake("optimizer.learning_rate=1e-3", "optimizer.discriminator_learning_rate=4e-3")
    groups = training.method.optimizers
    training.schedule.apply(groups, epoch=0)
    rates = {name: group.learning_rate for name, group in groups.items()}
    assert rates == {"group of painter": 1e-3, "group of critic": 4e-3}
    assert training.schedule.plateau is None
    assert build_fake("optimizer.decay=plateau").schedule.plateau == Plateau()


def test_crops_that_are_too_small_for_the_discriminator_are_refused(build_fake: Build) -> None:
    crops = ["data.preprocess=crop", "data.crop_width=32", "data.crop_height=32"]
    with pytest.raises(
        ConfigError, match=r"data\.crop_width is 32, expected at least 48 with discriminator\.n_layers=4"
    ):
        build_fake(*crops, "discriminator.padding=1", "discriminator.n_layers=4", "discriminator.n_scales=1")


def test_averages_are_of_what_translates(build_fake: Build) -> None:
    training = build_fake("train.ema_decay=0.9")
    assert list(training.averages) == ["painter"]
    assert training.validation is not None
    assert training.validation.predictor.generator is training.averages["painter"].module
    assert build_fake().averages == {}


@pytest.mark.parametrize(
    ("settings", "steps"),
    [
        (["train.max_steps=7"], 7),
        (["train.max_steps=null", "train.epochs=2", "train.decay_epochs=1"], 15),
        (["train.max_steps=null", "train.epochs=2", "train.decay_epochs=0", "train.accumulation_steps=4"], 3),
        (["train.max_steps=null", "train.epochs=2", "train.decay_epochs=1", "train.steps_per_epoch=40"], 120),
        (["train.max_steps=100", "train.epochs=2", "train.decay_epochs=1", "train.steps_per_epoch=40"], 100),
    ],
    ids=str,
)
def test_the_last_step_is_that_of_the_epochs_or_earlier(build_fake: Build, settings: list[str], steps: int) -> None:
    assert build_fake(*settings).total_steps == steps


def test_frozen_parts_are_frozen_from_the_start(build_fake: Build) -> None:
    networks = build_fake("train.freeze=[critic.1]").method.networks
    assert {name: len(network.parameters) for name, network in networks.items()} == {"painter": 2, "critic": 2}
