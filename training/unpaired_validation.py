"""Validation without pairs: translations as a set, against real images of the side that they are translated into."""

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import ClassVar

from torch import Tensor

from data.batch import Batch, Sample
from inference.predictor import Predictor
from metrics.evaluator import Evaluator, Features, Measurement
from training.diagnostics import TranslationHints
from training.run_log import RunLog
from training.validation import Validation


@dataclass(frozen=True)
class UnpairedValidation(Validation):
    """Measures the translations of the samples' sources against their targets, which belong to other sources.

    back: translates targets, in a method that trains this direction too; None otherwise.
    of_sources: the evaluator of images of the source side.
    hints, back_hints: on the translations of sources, and on those of targets.
    """

    back: Predictor | None = None
    of_sources: Evaluator = field(default_factory=Evaluator)
    hints: TranslationHints = field(default_factory=TranslationHints)
    back_hints: TranslationHints = field(default_factory=TranslationHints)

    grid: ClassVar = "source_translated_real"

    def run(self, log: RunLog, step: int) -> dict[str, float]:
        """Translate, show and report; return the figures of the translations of sources, by name."""
        figures = super().run(log, step)
        log.report_hints(self.hints.flush())
        if self.back:
            log.report_scalars(step, {f"validation_BtoA/{n}": value for n, value in self._back_figures(self.back)})
            log.report_hints([f"direction BtoA: {hint}" for hint in self.back_hints.flush()])
        return figures

    def _back_figures(self, back: Predictor) -> Iterable[tuple[str, float]]:
        features = []
        for number, sample in enumerate(map(_exchanged, self.samples)):
            fake = back.translate(Batch.of([sample]))[0]
            features.append(self.of_sources.features(fake, number))
            self.back_hints.add(back.show_source(sample), back.show_target(fake))
        return self.of_sources.set_figures(features, self._sources).items()

    def measure(self, number: int, fake: Tensor) -> Measurement:
        """Return the features of a translation and of a real image; a translation has no figures of its own."""
        self.hints.add(self.predictor.show_source(self.samples[number]), self.predictor.show_target(fake))
        return Measurement({}, None, self.evaluator.features(fake, number), self._targets[number])

    def pictures(self, sample: Sample, fake: Tensor) -> dict[str, Tensor]:
        """Return source, translation and a real image of the target side; of both directions where there are two."""
        predictor, back, exchanged = self.predictor, self.back, _exchanged(sample)
        assert sample.target is not None
        pictures = {"source": predictor.show_source(sample), "translated": predictor.show_target(fake)}
        real = {"real": predictor.show_target(sample.target)}
        if back is None:
            return pictures | real
        fake_source = back.translate(Batch.of([exchanged]))[0]
        again = predictor.translate(Batch.of([replace(sample, source=fake_source)]))[0]
        pictures["reconstructed"] = back.show_target(back.translate(Batch.of([replace(sample, source=fake)]))[0])
        real["real_translated"], real["real_reconstructed"] = (
            back.show_target(fake_source),
            predictor.show_target(again),
        )
        return pictures | real

    def describe(self) -> list[str]:
        """Return the figures that those of translations are to be compared with."""
        # where the target side has fewer images, some samples share theirs
        distinct = {hash(_exchanged(sample).source.numpy().tobytes()): n for n, sample in enumerate(self.samples)}
        references = self.evaluator.references(self._sources, [self._targets[n] for n in distinct.values()])
        return [f"to compare     {references}"] if str(references) else []

    @cached_property
    def _targets(self) -> list[Features]:
        return [self.evaluator.features(_exchanged(s).source, number) for number, s in enumerate(self.samples)]

    @cached_property
    def _sources(self) -> list[Features]:
        return [self.of_sources.features(sample.source, number) for number, sample in enumerate(self.samples)]


def _exchanged(sample: Sample) -> Sample:
    assert sample.target is not None
    return replace(sample, source=sample.target, target=sample.source)
