"""The discriminator's output for validation pairs, which leaves no trace in the training."""

import copy
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from data.batch import Batch
from tests.runs import assert_equal, built
from training.setup import Training
from training.validation_logits import ValidationLogits

AUGMENTED = ["augmentation.policy=[color,translation,cutout]"]
DISCRIMINATORS = {
    "two scales": [],
    "batch norm": ["discriminator.norm=batch"],
    "spectral norm": ["discriminator.spectral_norm=true"],
    "pixel": ["discriminator.name=pixel", "discriminator.norm=batch"],
    "O2": ["amp.opt_level=O2", "amp.dtype=bfloat16", "discriminator.norm=batch"],
    "O3": ["amp.opt_level=O3", "amp.dtype=bfloat16"],
}
EACH = pytest.mark.parametrize("settings", DISCRIMINATORS.values(), ids=DISCRIMINATORS)


def make_training(config: Path, settings: list[str]) -> tuple[Training, ValidationLogits]:
    training = built(config, *settings)
    assert training.validation is not None
    assert training.validation.logits is not None
    return training, training.validation.logits


def state(training: Training) -> dict[str, Any]:
    network = training.method.networks["discriminator"]
    modes = {name: module.training for name, module in network.compute_copy.named_modules()}
    networks = {"module": network.module, "copy": network.compute_copy}
    states = {name: dict(module.state_dict()) for name, module in networks.items()}
    return copy.deepcopy({**states, "modes": modes, "random": torch.get_rng_state()})


@EACH
def test_it_is_the_mean_that_training_would_report_and_changes_nothing(tiny_config: Path, settings: list[str]) -> None:
    training, logits = make_training(tiny_config, settings)
    assert training.validation is not None
    sample = training.validation.samples[0]
    before = state(training)
    found = logits.mean([sample], step=1)
    assert_equal(state(training), before)

    batch = Batch.of([sample])
    discriminator = copy.deepcopy(training.method.networks["discriminator"].compute_copy)
    if "discriminator.spectral_norm=true" in settings:
        discriminator.eval()  # in training it would make a step of its power iteration first
    with torch.no_grad(), training.method.precision.autocast():
        outputs = discriminator(logits.conditioning(batch), logits.conditioning.target(batch))
    expected = torch.stack([scale.logits.float().mean() for scale in outputs]).mean().item()
    assert found == pytest.approx(expected, rel=1e-5, abs=1e-6)


def test_pairs_are_augmented_as_those_that_are_trained_on(tiny_config: Path) -> None:
    (plain, augmented) = (make_training(tiny_config, settings) for settings in ([], AUGMENTED))
    means = [
        logits.mean(training.validation.samples, step)
        for training, logits in (plain, augmented)
        for step in (1, 1, 2)
        if training.validation
    ]
    assert means[0] == means[1] == means[2] != means[3] == means[4] != means[5]


def test_whole_images_are_measured_at_their_size_and_small_ones_left_out(tiny_config: Path) -> None:
    training, logits = make_training(tiny_config, [])
    assert training.validation is not None
    sample = training.validation.samples[0]
    maps = {name: getattr(sample, name) for name in ("source", "instances", "target")}
    large = replace(sample, **{name: image.repeat(1, 3, 2)[:, :70, :51] for name, image in maps.items()})
    small = replace(sample, **{name: image[:, :9, :2] for name, image in maps.items()})
    mean = logits.mean([large, small], step=1)
    assert mean is not None
    assert mean == logits.mean([large], step=1)
    assert logits.mean([small], step=1) is None
    assert [logits.takes(one) for one in (sample, large, small)] == [True, True, False]
