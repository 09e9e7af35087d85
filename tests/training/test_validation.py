"""Validation: logits, measures of translations without pairs, hints on failures, and the best score."""

import copy
import json
import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from configs.schema import CheckpointConfig, Config
from data.batch import Batch, Sample
from data.conditioning import Conditioning
from inference.predictor import Predictor
from metrics.evaluator import Evaluator
from tests.runs import assert_equal, built, checkpoint, run, without_config
from training.diagnostics import TranslationHints
from training.run import Training, best_figure
from training.validation import BEST, Patience, UnpairedValidation, ValidationLogits, has_scores_of, read_best
from utils.checkpoint import save_checkpoint
from utils.checkpoint_folder import checkpoint_path, latest_step
from utils.device import Precision
from utils.errors import ConfigError


def scenes(n: int = 4, side: int = 40) -> list[Tensor]:
    coarse = torch.rand(n, 3, 5, 5, generator=torch.Generator().manual_seed(0))
    images = torch.nn.functional.interpolate(coarse, (side, side), mode="bilinear", align_corners=False)
    return list((images * 255).to(torch.uint8))


SCENES = scenes()
DARK = [image // 4 for image in SCENES]
OTHERS = [image.flip(1, 2) for image in SCENES]
FAILURES = {
    "negatives": [255 - image for image in SCENES],
    "alike": [(SCENES[0] * 0.9 + image * 0.1).to(torch.uint8) for image in SCENES],
    "equal their sources": [image.clamp(max=254) + 1 for image in SCENES],
}


def make_training(config: Path, settings: list[str]) -> tuple[Training, ValidationLogits, list[Sample]]:
    training = built(config, *settings)
    assert training.validation is not None
    assert training.validation.logits is not None
    return training, training.validation.logits, list(training.validation.samples)


def state(training: Training) -> dict[str, Any]:
    network = training.method.networks["discriminator"]
    modes = {name: module.training for name, module in network.compute_copy.named_modules()}
    networks = {"module": network.module, "copy": network.compute_copy}
    states = {name: dict(module.state_dict()) for name, module in networks.items()}
    return copy.deepcopy({**states, "modes": modes, "random": torch.get_rng_state()})


@pytest.mark.parametrize(
    "settings",
    [["discriminator.spectral_norm=true"], ["amp.opt_level=O2", "amp.dtype=bfloat16", "discriminator.norm=batch"]],
)
def test_validation_logits_equal_training_logits_and_change_nothing(tiny_config: Path, settings: list[str]) -> None:
    training, logits, (sample, *_) = make_training(tiny_config, settings)
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
    made = [make_training(tiny_config, settings) for settings in ([], ["augmentation.policy=[color,cutout]"])]
    means = [logits.mean(samples, step) for _, logits, samples in made for step in (1, 1, 2)]
    assert means[0] == means[1] == means[2] != means[3] == means[4] != means[5]


def test_validation_logits_ignore_images_that_are_too_small(tiny_config: Path) -> None:
    _, logits, (sample, *_) = make_training(tiny_config, [])
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
    both, state = validation(torch.neg, back=predictor(lambda images: -images / 2)), torch.get_rng_state()
    report = both.run(1)
    assert torch.equal(torch.get_rng_state(), state)
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


def test_hints_on_both_directions_are_reported() -> None:
    both = validation(torch.neg, back=predictor(torch.clone))
    hints = [both.run(step).hints for step in range(3)]
    assert hints[:2] == [[], []]
    assert ["negatives" in hints[2][0], "direction BtoA: translations equal" in hints[2][1]] == [True, True]


def hints_after(hints: TranslationHints, translations: list[Tensor], n_validations: int) -> list[str]:
    found: list[str] = []
    for _ in range(n_validations):
        for source, fake in zip(SCENES, translations, strict=True):
            hints.add(source, fake)
        found += hints.flush()
    return found


@pytest.mark.parametrize("failure", FAILURES)
def test_hint_is_given_once_and_again_if_its_cause_returns(failure: str) -> None:
    hints, failed = TranslationHints(), FAILURES[failure]
    assert hints_after(hints, failed, 2) == []
    assert [failure in hint for hint in hints_after(hints, failed, 4)] == [True]
    assert hints_after(hints, DARK, 3) == []
    assert len(hints_after(hints, failed, 3)) == 1


def test_only_translations_without_the_variety_of_their_sources_are_reported_as_alike() -> None:
    for varied in (DARK, OTHERS):
        assert hints_after(TranslationHints(), varied, 4) == []
    faint = [(image * 0.025).to(torch.uint8) for image in SCENES]
    (hint,) = hints_after(TranslationHints(), faint, 3)
    assert "collapsed" in hint
    single = TranslationHints()
    for _ in range(4):
        single.add(SCENES[0], DARK[0])
        assert single.flush() == []  # one translation is not alike to others


@pytest.mark.parametrize(
    ("change", "is_same"),
    [
        (["train.batch_size=2", "run.name=moved", "metrics.label_colors=cmp_facades", "optimizer.decay=plateau"], True),
        (["metrics.n_samples=1"], False),
        (["data.preprocess=scale_width", "data.load_width=64"], False),
    ],
    ids=str,
)
def test_digest_of_a_figure_depends_on_samples_and_metric(tiny_config: Path, change: list[str], is_same: bool) -> None:
    first, second = (built(tiny_config, "checkpoint.best=l1", *more).measured_on["l1"] for more in ([], change))
    assert (first == second) is is_same


@pytest.mark.parametrize(
    ("best", "figure", "has_scores"), [("psnr", "l1", False), ("auto", "l1", True), ("auto", "ssim", False)]
)
def test_best_score_belongs_only_to_its_figure_if_a_plateau_uses_another(
    best: str, figure: str, has_scores: bool
) -> None:
    measured_on = {"psnr": "digest", "l1": "another"}
    state = {"best": 12.5, "measured_on": measured_on, "config": {"checkpoint": {"best": best}}}
    assert has_scores_of(figure, state, {**measured_on, "ssim": "third"}) is has_scores


@pytest.mark.parametrize(
    ("setting", "split", "figure"),
    [("auto", "val", "swd"), ("auto", "held_back", "swd"), ("auto", "train", "none"), ("l1", "train", "l1")],
)
def test_automatic_best_figure_needs_samples_that_are_not_trained_on(setting: str, split: str, figure: str) -> None:
    config = Config(checkpoint=CheckpointConfig(best=setting))
    assert best_figure(config, split, progress="swd", n_samples=9) == figure


@pytest.mark.parametrize(
    ("settings", "figure"),
    [
        ([], "l1"),
        (["loss.shift_reach=2"], "l1_shifted"),
        (["metrics.shift_reach=2"], "l1_shifted"),
        (["loss.shift_reach=2", "metrics.shift_reach=0"], "l1"),
    ],
)
def test_progress_is_measured_after_the_best_shift(tiny_config: Path, settings: list[str], figure: str) -> None:
    training = built(tiny_config, "optimizer.decay=plateau", "checkpoint.best=auto", *settings)
    assert (training.best.figure, training.method.progress, [*training.measured_on]) == (figure, figure, [figure])
    assert training.validation is not None
    assert (figure == "l1_shifted") == ("validation/shift_x" in training.validation.run(0).scalars)


@pytest.mark.parametrize("settings", [["checkpoint.best=none"], ["data.validation_split=train"]], ids=str)
def test_patience_needs_a_best(tiny_config: Path, settings: list[str]) -> None:
    with pytest.raises(ConfigError, match=r"^train\.patience is 2, expected null"):
        built(tiny_config, "train.patience=2", "checkpoint.best=auto", *settings)


def test_patience_counts_validations_since_the_best() -> None:
    patience = Patience("psnr", limit=2)
    reasons = []
    for psnr in (20.0, 19.0, 20.5, 20.5, math.nan):
        patience.update({"psnr": psnr})
        reasons.append(patience.end_reason)
    assert reasons == [None] * 4 + ["psnr has not improved for 2 validations, train.patience=2"]
    assert Patience("psnr", limit=None, n_without=99).end_reason is None
    without_best = Patience("none", limit=2)
    without_best.update({"psnr": 20.0})
    assert without_best.n_without == 0


def test_a_run_out_of_patience_ends_at_the_same_step_however_often_it_is_resumed(tiny_config: Path) -> None:
    settings = ["checkpoint.best=auto", "train.patience=1", "optimizer.learning_rate=0", "train.max_steps=20"]
    settings += ["log.images_every_steps=2", "checkpoint.every_steps=1", "checkpoint.keep=0"]
    folder = tiny_config.parent / "runs" / "tiny"
    run(tiny_config, *settings, "run.name=whole")
    run(tiny_config, *settings, "train.max_steps=1")  # its last validation does not count
    run(tiny_config, *settings)
    for step in (3, 4):  # a kill would lose these checkpoints
        checkpoint_path(folder, step).unlink()
    run(tiny_config, *settings)
    assert latest_step(folder) == 4  # 2 is the best, 4 is not better
    assert_equal(without_config(checkpoint(tiny_config, 4)), without_config(checkpoint(tiny_config, 4, "whole")))
    state = json.loads((folder / "state.json").read_text())
    assert (state["state"], state["reason"]) == ("finished", "l1 has not improved for 1 validations, train.patience=1")


def test_best_score_is_read_without_the_weights(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    save_checkpoint(path := tmp_path / BEST, {"best": 12.5, "weight": torch.ones(1000)})
    content = path.read_bytes()
    path.write_bytes(content.replace(torch.ones(1000).numpy().tobytes(), bytes(4000)))  # damage that only reading finds
    assert read_best(tmp_path)["best"] == 12.5
    path.write_bytes(content[:-1])
    assert read_best(tmp_path) == {}
    assert "best.pt is ignored" in caplog.text
