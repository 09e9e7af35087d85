"""Validation on a fixed set of samples, with metrics, pictures and activations, and the best score so far."""

import copy
import hashlib
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from data.batch import MAPS, Batch, Sample
from inference.predictor import Predictor
from losses.adversarial import mean_logits
from losses.diffaugment import DiffAugment
from metrics import METRICS
from metrics.evaluator import Evaluator, Features, Measurement, Summary, shown
from models.running_statistics import batch_norms
from training.diagnostics import TranslationHints
from utils.checkpoint import CheckpointError, load_checkpoint
from utils.errors import ConfigError
from utils.log import logger
from utils.pictures import difference, picture_table, weights_picture


@dataclass(frozen=True)
class ShownSample:
    """A sample for the HTML page, with (3, H, W) uint8 pictures and metric values (figures), both by name."""

    name: str
    pictures: Mapping[str, Tensor]
    figures: Mapping[str, float]


@dataclass(frozen=True)
class ValidationReport:
    """The results of a validation.

    summary: Metrics over all samples.
    scalars: All metric values by TensorBoard tag.
    images: (3, H, W) uint8 images for TensorBoard, by tag.
    samples: Samples for the HTML page.
    hints: Messages for the user if the translations look wrong.
    """

    split: str
    summary: Summary
    scalars: Mapping[str, float]
    images: Mapping[str, Tensor]
    samples: Sequence[ShownSample]
    hints: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class ValidationLogits:
    """Computes the mean output of the discriminator for pairs. The discriminator's state does not change.

    discriminator: Network without DistributedDataParallel.
    augmentation: Augmentation from training, because the discriminator was trained only on augmented images.
    predictor: Predictor of the validation. Its conditioning, precision and device are used here too.
    min_side: Smallest height and width that the discriminator accepts, in pixels.
    """

    discriminator: nn.Module
    augmentation: DiffAugment
    predictor: Predictor
    min_side: int

    @torch.inference_mode()
    def mean(self, samples: Sequence[Sample], step: int) -> float | None:
        """Return the mean over patches, scales and samples. Skip samples that are too small; None if all are skipped.

        step: Seed of the augmentation.
        """
        conditioning, device = self.predictor.conditioning, self.predictor.device
        generator = torch.Generator(device).manual_seed(step)
        network = copy.deepcopy(self.discriminator).eval()  # eval() stops the power iteration of spectral norm
        for norm in batch_norms(network):  # discard running statistics, which mix real and translated images
            norm.running_mean = norm.running_var = None
        values: list[Tensor] = []
        for sample in samples:
            if min(sample.maps["target"].shape[-2:]) < self.min_side:
                continue
            batch = Batch.of([sample]).to(device)
            target = conditioning.target(batch)
            transform = self.augmentation.draw(target, generator)
            with self.predictor.precision.autocast():
                source = transform.of_source(conditioning.of_discriminator(conditioning(batch)))
                outputs = network(source, transform.of_image(target))
            values.append(mean_logits([scale.logits.float() for scale in outputs]))  # bfloat16 is not precise enough
        return torch.stack(values).mean().item() if values else None


N_SHOWN_CHANNELS = 16


@dataclass(frozen=True)
class Validation:
    """Translates `samples`, measures the translations, and prepares pictures of the first samples.

    n_shown: Number of samples with pictures.
    logits: Computes the discriminator's mean output for pairs. None: The discriminator does not take pairs.
    activations: Name of a generator module whose output is also shown, or None.
    """

    split: str
    samples: Sequence[Sample]
    predictor: Predictor
    evaluator: Evaluator
    logits: ValidationLogits | None
    n_shown: int = 4
    activations: str | None = None

    grid: ClassVar = "source_translated_target"

    def __post_init__(self) -> None:
        modules = [name for name, _ in self.predictor.generator.named_modules() if name]
        if self.activations is not None and self.activations not in modules:
            some = ", ".join(modules[:: max(1, len(modules) // 12)])
            raise ConfigError(f"log.activations: the generator has no module {self.activations!r}; it has {some}")

    def run(self, step: int) -> ValidationReport:
        """Translate and measure all samples. The step is the seed of the discriminator's augmentation."""
        measured, shown_samples, images = [], list[ShownSample](), dict[str, Tensor]()
        for number, sample in enumerate(self.samples):
            fake = self.predictor.translate(Batch.of([sample]))[0]
            measured.append(self.measure(number, fake))
            if number < self.n_shown:
                figures = shown(measured[-1].figures)
                shown_samples.append(ShownSample(sample.name, self.pictures(sample, fake), figures))
        if self.activations is not None:
            images[f"activations/{self.activations}"] = channel_table(self._activations_of(self.activations))
        rows = [[of for kind, of in sample.pictures.items() if kind != "difference"] for sample in shown_samples]
        images |= {f"validation/{self.grid}": picture_table(rows)} if rows else {}
        summary = self.evaluator.summarize(measured)
        scalars = {f"validation/{name}": value for name, value in summary.figures.items()}
        scalars |= {f"iou/{name}": score.iou for name, score in summary.classes.items() if score.iou is not None}
        logits = self.logits.mean(self.samples, step) if self.logits else None
        scalars |= {} if logits is None else {"logits/D/validation": logits}
        return ValidationReport(self.split, summary, scalars, images, shown_samples)

    def measure(self, number: int, fake: Tensor) -> Measurement:
        """Measure the translation of sample `number`."""
        sample = self.samples[number]
        return self.evaluator.measure(fake, sample.maps["target"], self.predictor.weights(sample), number)

    def pictures(self, sample: Sample, fake: Tensor) -> dict[str, Tensor]:
        """Return the pictures of a sample and its translation, by name."""
        predictor, weights, target = self.predictor, self.predictor.weights(sample), sample.maps["target"]
        pictures = {"source": predictor.show_source(sample), "translated": predictor.show_target(fake, target)}
        pictures["target"] = predictor.show_target(target)
        pictures["difference"] = difference(pictures["translated"], pictures["target"])
        return pictures if weights is None else pictures | {"weights": weights_picture(weights)}

    def describe(self) -> list[str]:
        """Return lines for the training plan, with reference values of the metrics."""
        return []

    def digest(self, figure: str) -> str:
        """Return a digest of a metric's samples and protocol. Metric values with the same digest can be compared."""
        parts = [json.dumps(self.evaluator.basis(figure), sort_keys=True).encode()]
        for sample in self.samples:
            maps = [getattr(sample, name) for name in MAPS if name != "weights"]
            maps.append(self.predictor.weights(sample) if METRICS[figure].of.startswith("weighted") else None)
            for pixels in maps:
                parts.append(f"{None if pixels is None else (pixels.dtype, *pixels.shape)}".encode())
                parts += [] if pixels is None else [pixels.contiguous().numpy().tobytes()]
        return hashlib.blake2b(b"".join(parts), digest_size=16).hexdigest()

    def _activations_of(self, module: str) -> Tensor:
        """Return the output of a generator module for the first sample."""
        outputs, watched = list[Tensor](), self.predictor.generator.get_submodule(module)
        with watched.register_forward_hook(lambda *call: outputs.append(call[-1])):
            self.predictor.translate(Batch.of([self.samples[0]]))
        return outputs[0]


def channel_table(activations: Tensor) -> Tensor:
    """Return a (3, H, W) uint8 image of the first channels of (1, C, H, W) activations, each scaled to [0, 255]."""
    channels = activations[0, :N_SHOWN_CHANNELS].detach().float().cpu()
    low, high = (bound(channels, dim=(1, 2), keepdim=True) for bound in (torch.amin, torch.amax))
    grey = ((channels - low) / (high - low).clamp_min(1e-12) * 255).round().to(torch.uint8)
    images = [channel.expand(3, -1, -1) for channel in grey]
    return picture_table([images[start : start + 4] for start in range(0, len(images), 4)])


@dataclass(frozen=True)
class UnpairedValidation(Validation):
    """Validation for unpaired data. It compares translated sources with unrelated targets.

    back: Predictor from targets to sources. None: The training method does not train this direction.
    of_sources: Evaluator for images of the source domain.
    hints: Collects hints if translated sources look wrong.
    back_hints: Collects hints if translated targets look wrong.
    """

    back: Predictor | None = None
    of_sources: Evaluator = field(default_factory=Evaluator)
    hints: TranslationHints = field(default_factory=TranslationHints)
    back_hints: TranslationHints = field(default_factory=TranslationHints)

    grid: ClassVar = "source_translated_real"

    def run(self, step: int) -> ValidationReport:
        """Translate and measure the sources of all samples, and their targets if `back` is set."""
        report = super().run(step)
        hints = self.hints.flush()
        if self.back is None:
            return replace(report, hints=hints)
        figures = {f"validation_BtoA/{name}": value for name, value in self._back_figures(self.back).items()}
        hints += [f"direction BtoA: {hint}" for hint in self.back_hints.flush()]
        return replace(report, scalars={**report.scalars, **figures}, hints=hints)

    def _back_figures(self, back: Predictor) -> dict[str, float]:
        features = []
        for number, sample in enumerate(map(Sample.exchanged, self.samples)):
            fake = back.translate(Batch.of([sample]))[0]
            features.append(self.of_sources.features(fake, number))
            self.back_hints.add(back.show_source(sample), back.show_target(fake))
        return shown(self.of_sources.set_figures(features, self._sources))

    def measure(self, number: int, fake: Tensor) -> Measurement:
        """Return the features of a translation and of a real target, without metrics of pairs."""
        self.hints.add(self.predictor.show_source(self.samples[number]), self.predictor.show_target(fake))
        return Measurement({}, None, self.evaluator.features(fake, number), self._targets[number])

    def pictures(self, sample: Sample, fake: Tensor) -> dict[str, Tensor]:
        """Return pictures of a source, its translation and a real target. With `back`, add the other direction."""
        predictor, back, exchanged = self.predictor, self.back, sample.exchanged()
        pictures = {"source": predictor.show_source(sample), "translated": predictor.show_target(fake)}
        real = {"real": predictor.show_target(sample.maps["target"])}
        if back is None:
            return pictures | real
        fake_source = back.translate(Batch.of([exchanged]))[0]
        again = predictor.translate(Batch.of([replace(sample, source=fake_source)]))[0]
        pictures["reconstructed"] = back.show_target(back.translate(Batch.of([replace(sample, source=fake)]))[0])
        real["real_translated"] = back.show_target(fake_source)
        real["real_reconstructed"] = predictor.show_target(again)
        return pictures | real

    def describe(self) -> list[str]:
        """Return a line with the metrics of sources and of real targets, as references for the translations."""
        # several samples share a target if there are fewer targets than sources
        distinct = {hash(sample.maps["target"].numpy().tobytes()): n for n, sample in enumerate(self.samples)}
        references = self.evaluator.references(self._sources, [self._targets[n] for n in distinct.values()])
        return [f"to compare     {references}"] if str(references) else []

    @cached_property
    def _targets(self) -> list[Features]:
        return [self.evaluator.features(sample.maps["target"], number) for number, sample in enumerate(self.samples)]

    @cached_property
    def _sources(self) -> list[Features]:
        return [self.of_sources.features(sample.source, number) for number, sample in enumerate(self.samples)]


BEST = "best.pt"


@dataclass
class BestScore:
    """The best score of a metric so far.

    figure: Name of the metric, or "none" if no best checkpoint is kept.
    value: Best score, or None before the first validation. A higher score is better.
    """

    figure: str
    value: float | None = None

    @property
    def is_kept(self) -> bool:
        """Whether best.pt is written."""
        return self.figure != "none"

    def improved_by(self, figures: Mapping[str, float]) -> float | None:
        """Return the new score if it is better than `value`. The score is the metric, negated if lower is better.

        Return None if the score is not better, missing or not finite.
        """
        figure = figures.get(self.figure, math.nan)
        score = figure if self.figure not in METRICS or METRICS[self.figure].higher_is_better else -figure
        return score if math.isfinite(score) and (self.value is None or score > self.value) else None


@dataclass
class Patience(BestScore):
    """The best score for early stopping. Early stopping ends a run if the score no longer improves.

    This score is not read from best.pt, because a killed run may have written best.pt after its last checkpoint. With
    that newer score, a resumed run would end at another step than an uninterrupted run.

    limit: Number of validations without improvement after which the run ends. None: No early stopping.
    n_without: Number of validations since the best score.
    """

    limit: int | None = None
    n_without: int = 0

    def update(self, figures: Mapping[str, float]) -> None:
        """Record the metrics of a validation."""
        reached = self.improved_by(figures)
        self.n_without = 0 if reached is not None or not self.is_kept else self.n_without + 1
        self.value = self.value if reached is None else reached

    @property
    def end_reason(self) -> str | None:
        """Why the run must end, or None if it continues."""
        if self.limit is None or self.n_without < self.limit:
            return None
        return f"{self.figure} has not improved for {self.n_without} validations, train.patience={self.limit}"


def can_be_compared(figure: str, state: Mapping[str, Any], measured_on: Mapping[str, str]) -> bool:
    """Return whether a checkpoint measured a metric on the same samples and with the same protocol as this run.

    measured_on: This run's digests of samples and protocol, by metric.
    """
    return figure in measured_on and state.get("measured_on", {}).get(figure) == measured_on[figure]


def has_scores_of(figure: str, state: Mapping[str, Any], measured_on: Mapping[str, str]) -> bool:
    """Return whether the best score of a checkpoint can be compared with this run's scores of a metric.

    A checkpoint may contain a metric only because the plateau schedule uses this metric. The best score then belongs to
    another metric.
    """
    is_same, settings = can_be_compared(figure, state, measured_on), state.get("config", {}).get("checkpoint")
    return is_same and isinstance(settings, dict) and settings.get("best") in (figure, "auto")


def read_best(run_folder: Path) -> dict[str, Any]:
    """Return the content of best.pt, or an empty dict if the file is missing or unusable. Do not check the weights."""
    path = run_folder / BEST
    if not path.is_file():
        return {}
    try:
        return load_checkpoint(path, checks_content=False)
    except CheckpointError as error:
        logger.warning("%s is ignored: %s", path, error)
        return {}
