"""The controller of the augmentation's probability."""

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
import torch
from torch import nn

from data.batch import Sample
from tests.runs import OASIS, STYLE, built, checkpoint, records, run
from training import augmentation_controller
from training.augmentation_controller import AugmentationController
from training.methods.paired import Paired
from training.validation import Validation, ValidationLogits
from utils.distributed import World
from utils.errors import ConfigError

SETTINGS = ["augmentation.policy=[color,translation,cutout]", "augmentation.target=0.5", "log.images_every_steps=2"]


def controller(target: float, change: float, overfittings: Sequence[float]) -> AugmentationController:
    """One that measures these."""
    world, validation, left = World(0, 1, torch.device("cpu")), Mock(spec=Validation), iter(overfittings)
    made = AugmentationController(world, torch.zeros(()), target, change, nn.Identity(), validation)
    made.overfitting = lambda *_: next(left)  # type: ignore[method-assign]
    return made


def test_the_rule_is_that_of_ada(reference: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(augmentation_controller, "MOST", math.inf)
    case = reference["ada_controller"]
    config, signs = case["config"], case["inputs"]["mean_signs"].tolist()
    change = config["batch_size"] * config["interval"] / (config["kimg"] * 1000)
    adjusted = controller(config["target"], change, signs)
    for expected in case["p"].tolist():
        assert adjusted.adjust(0)["augmentation/probability"] == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize(
    ("before", "measured", "expected"), [(0.75, 0.9, 0.8), (0.05, 0.1, 0.0), (0.3, math.nan, 0.3), (0.3, 0.5, 0.3)]
)
def test_the_probability_has_bounds_and_no_measurement_changes_nothing(
    before: float, measured: float, expected: float
) -> None:
    adjusted = controller(0.5, 0.1, [measured])
    adjusted.load_state_dict({"probability": before})
    adjusted.adjust(0)
    assert adjusted.state_dict() == {"probability": expected}


def test_it_does_not_rise_at_once_where_validations_are_rare(tiny_config: Path) -> None:
    method = built(tiny_config, *SETTINGS, "log.images_every_steps=500").method
    assert isinstance(method, Paired)
    assert method.controller
    assert method.controller.change == 0.1


@pytest.mark.parametrize(
    ("real", "validation", "fake", "expected"),
    [
        (0.8, 0.8, 0.2, 0.0),
        (0.8, 0.5, 0.2, 0.5),
        (0.8, 0.2, 0.2, 1.0),
        (0.4, 0.1, 0.5, 0.0),
        (0.8, None, 0.2, math.nan),
    ],
)
def test_overfitting_is_the_share_of_the_way_to_translated_images(
    tiny_config: Path,
    monkeypatch: pytest.MonkeyPatch,
    real: float,
    validation: float | None,
    fake: float,
    expected: float,
) -> None:
    method = built(tiny_config, *SETTINGS).method
    assert isinstance(method, Paired)
    controller = method.controller
    assert controller is not None
    ours = controller.validation
    assert ours is not None
    assert [len(samples) for samples in (controller.train, ours.samples)] == [2, 2]

    def mean(_: ValidationLogits, samples: Sequence[Sample], step: int) -> float | None:
        assert step == 7
        return real if samples is controller.train else validation if samples is ours.samples else fake

    monkeypatch.setattr(ValidationLogits, "mean", mean)
    assert controller.overfitting(ours, 7) == pytest.approx(expected, nan_ok=True)


def test_a_run_adjusts_at_validations_logs_and_saves(tiny_config: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(AugmentationController, "overfitting", lambda *arguments: 0.9 if arguments[-1] < 7 else 0.1)
    run(tiny_config, *SETTINGS, "train.max_steps=9")
    tags = ("augmentation/probability", "augmentation/overfitting")
    found = {record["step"]: tuple(record[tag] for tag in tags) for record in records(tiny_config, tags[0])}
    change = 2 / (0.05 * 1000)  # 200 epochs of 5 samples
    expected = {2: (change, 0.9), 4: (2 * change, 0.9), 6: (3 * change, 0.9), 8: (2 * change, 0.1)}
    assert found.keys() == expected.keys()
    for step, values in expected.items():
        assert found[step] == pytest.approx(values)
    assert checkpoint(tiny_config, 9)["method"]["augmentation"]["probability"] == pytest.approx(2 * change)


@pytest.mark.parametrize("settings", [[], OASIS, STYLE, ["features.n_channels=3", "features.n_downsamplings=2"]])
def test_overfitting_is_measured_of_any_generator(tiny_config: Path, settings: list[str]) -> None:
    settings = [*SETTINGS, *settings, "augmentation.policy=[color,translation]", "train.ema_decay=0.9"]
    run(tiny_config, *settings, "generator.norm=batch", "train.max_steps=2")
    (record,) = records(tiny_config, "augmentation/overfitting")
    assert (record["step"], math.isfinite(record["augmentation/overfitting"])) == (2, True)


def test_the_augmentation_reads_the_probability_also_from_a_checkpoint(tiny_config: Path) -> None:
    method = built(tiny_config, *SETTINGS).method
    assert isinstance(method, Paired)
    controller = method.controller
    assert isinstance(controller, AugmentationController)
    images = torch.rand(50, 3, 8, 8)
    assert torch.allclose(method.discriminator.augmentation.draw(images).of_image(images), images, atol=1e-6)
    controller.load_state_dict({"probability": 1.0})
    assert not torch.allclose(method.discriminator.augmentation.draw(images).of_image(images), images, atol=1e-2)


def test_a_checkpoint_without_one_starts_the_control_at_zero(trained_config: Path) -> None:
    run(trained_config, *SETTINGS, "train.max_steps=5")
    assert checkpoint(trained_config, 5)["method"]["augmentation"] == {"probability": 0.0}


def test_validation_samples_that_are_trained_on_are_refused(tiny_config: Path) -> None:
    with pytest.raises(ConfigError, match=r"augmentation\.target is 0\.5, expected null where validation samples are"):
        built(tiny_config, *SETTINGS, "data.validation_split=train")
