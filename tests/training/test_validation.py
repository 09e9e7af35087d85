"""Validation: the discriminator's logits, and the measures of translations without pairs."""

import copy
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from data.batch import Batch, Sample
from data.conditioning import Conditioning
from inference.predictor import Predictor
from metrics.evaluator import Evaluator
from tests.runs import assert_equal, built
from tests.training.test_diagnostics import OTHERS, SCENES
from training.run import Training
from training.validation import UnpairedValidation, ValidationLogits
from utils.device import Precision

AUGMENTED = ["augmentation.policy=[color,translation,cutout]"]
DISCRIMINATORS = {
    "two scales": [],
    "batch norm": ["discriminator.norm=batch"],
    "spectral norm": ["discriminator.spectral_norm=true"],
    "O2": ["amp.opt_level=O2", "amp.dtype=bfloat16", "discriminator.norm=batch"],
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
def test_validation_logits_equal_training_logits_and_change_nothing(tiny_config: Path, settings: list[str]) -> None:
    training, logits = make_training(tiny_config, settings)
    assert training.validation is not None
    sample = training.validation.samples[0]
    before = state(training)
    found = logits.mean([sample], step=1)
    assert_equal(state(training), before)

    batch = Batch.of([sample])
    discriminator = copy.deepcopy(training.method.networks["discriminator"].compute_copy)
    if "discriminator.spectral_norm=true" in settings:
        discriminator.eval()  # training mode would make a step of the power iteration
    conditioning = logits.predictor.conditioning
    with torch.no_grad(), training.method.precision.autocast():
        outputs = discriminator(conditioning(batch), conditioning.target(batch))
    expected = torch.stack([scale.logits.float().mean() for scale in outputs]).mean().item()
    assert found == pytest.approx(expected, rel=1e-5, abs=1e-6)


def test_validation_pairs_are_augmented_with_a_seed_of_the_step(tiny_config: Path) -> None:
    (plain, augmented) = (make_training(tiny_config, settings) for settings in ([], AUGMENTED))
    means = [
        logits.mean(training.validation.samples, step)
        for training, logits in (plain, augmented)
        for step in (1, 1, 2)
        if training.validation
    ]
    assert means[0] == means[1] == means[2] != means[3] == means[4] != means[5]


def test_validation_logits_ignore_images_that_are_too_small(tiny_config: Path) -> None:
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


CPU = torch.device("cpu")
SAMPLES = [Sample(f"{number}", source=source, target=255 - OTHERS[number]) for number, source in enumerate(SCENES)]
EVALUATOR = Evaluator.load(["swd"], None, CPU, n_images=4)


class Computed(nn.Module):
    def __init__(self, function: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.function = function

    def forward(self, images: Tensor) -> Tensor:
        return self.function(images)


def predictor(function: Callable[[Tensor], Tensor]) -> Predictor:
    precision, colors = Precision("cpu", torch.float32, "O0"), torch.zeros(0, 3, dtype=torch.uint8)
    return Predictor(Computed(function), Conditioning(0, instance_edges=False), precision, CPU, colors)


def validation(
    translate: Callable[[Tensor], Tensor], back: Predictor | None = None, samples: list[Sample] = SAMPLES
) -> UnpairedValidation:
    return UnpairedValidation("val", samples, predictor(translate), EVALUATOR, None, back=back, of_sources=EVALUATOR)


def test_translation_scores_better_than_the_untranslated_sources() -> None:
    samples = [replace(sample, target=OTHERS[number] // 4) for number, sample in enumerate(SAMPLES)]
    darkening, none = validation(lambda x: (x - 3) / 4, samples=samples), validation(torch.clone, samples=samples)
    darkened, unchanged = (one.run(1).summary.figures for one in (darkening, none))
    assert darkened.keys() == {"swd"}  # nothing that would need pairs
    assert darkened["swd"] < 0.3 * unchanged["swd"]
    (line,) = none.describe()
    assert line.startswith(f"to compare     SWD {unchanged['swd']:.4g} of sources, ")
    assert line.endswith(" of one half of the targets against the other")


def test_unpaired_pictures_have_real_images_and_reconstructions() -> None:
    both = validation(torch.neg, back=predictor(lambda images: -images / 2))
    report = both.run(1)
    kinds = ["source", "translated", "reconstructed", "real", "real_translated", "real_reconstructed"]
    assert [list(sample.pictures) for sample in report.samples] == [kinds] * 4
    assert list(report.images) == ["validation/source_translated_real"]
    assert report.scalars.keys() == {"validation/swd", "validation_BtoA/swd"}
    sample, real = SAMPLES[0], 255 - OTHERS[0]
    pictures = both.pictures(sample, 255 - sample.source)
    expected = {
        "real": real.float(),
        "reconstructed": 63.75 + sample.source / 2,  # half of the contrast
        "real_translated": 191.25 - real / 2,
        "real_reconstructed": 63.75 + real / 2,
    }
    for kind, picture in expected.items():
        torch.testing.assert_close(pictures[kind].float(), picture, atol=1, rtol=0)


def test_digest_of_unpaired_validation_depends_on_both_domains() -> None:
    digest = validation(torch.clone).digest("swd")
    assert validation(torch.neg).digest("swd") == digest
    other = SAMPLES[1].source
    for changed in (replace(SAMPLES[0], source=other), replace(SAMPLES[0], target=other)):
        assert validation(torch.clone, samples=[changed, *SAMPLES[1:]]).digest("swd") != digest


def test_a_validation_draws_nothing_from_the_random_generators_of_the_run() -> None:
    state = torch.get_rng_state()
    validation(torch.neg, back=predictor(torch.neg)).run(1)
    assert torch.equal(torch.get_rng_state(), state)


def test_hints_on_both_directions_are_reported() -> None:
    both = validation(torch.neg, back=predictor(torch.clone))
    hints = [both.run(step).hints for step in range(3)]
    assert hints[:2] == [[], []]
    assert ["negatives" in hints[2][0], "direction BtoA: translations equal" in hints[2][1]] == [True, True]
