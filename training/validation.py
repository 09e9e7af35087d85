"""Validation: the same few samples each time, as pictures, figures and activations."""

import hashlib
import json
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from data.batch import MAPS, Batch, Sample
from inference.display import weights_picture
from inference.predictor import Predictor
from metrics.evaluator import WEIGHTED, Evaluator, Measurement, shown
from training.run_log import RunLog
from training.validation_logits import ValidationLogits
from utils.image_grid import difference, picture_table

N_SHOWN_CHANNELS = 16


@dataclass(frozen=True)
class Validation:
    """Translates `samples`, and shows the results in TensorBoard and on the page web/index.html of the run's folder.

    split: that of the samples. n_shown: how many samples are shown; the others are only measured.
    logits: computes the discriminator's mean output for the samples and their targets, where it sees pairs.
    activations: the name of a module of the generator whose output is shown too, or None.
    """

    split: str
    samples: list[Sample]
    predictor: Predictor
    evaluator: Evaluator
    logits: ValidationLogits | None
    n_shown: int = 4
    activations: str | None = None

    grid: ClassVar = "source_translated_target"

    def run(self, log: RunLog, step: int) -> dict[str, float]:
        """Translate, show and report; return the figures of all samples together, by name."""
        rows, measured = [], []
        for number, sample in enumerate(self.samples):
            with self._watched_activations() as activations:
                fake = self.predictor.translate(Batch.of([sample]))[0]
            if activations and number == 0:
                log.write_image(f"activations/{self.activations}", channel_table(activations[0]), step)
            measured.append(self.measure(number, fake))
            if number >= self.n_shown:
                continue
            pictures = self.pictures(sample, fake)
            rows.append([picture for kind, picture in pictures.items() if kind != "difference"])
            if log.page:
                on_page = {kind: picture for kind, picture in pictures.items() if kind != "weights"}
                log.page.add(step, number, sample.name, on_page, shown(measured[-1].figures))
        log.write_image(f"validation/{self.grid}", picture_table(rows), step)
        if log.page:
            log.page.write()
        summary = self.evaluator.summarize(measured)
        logits = self.logits.mean(self.samples, step) if self.logits else None
        log.report_validation(step, summary, logits, self.split)
        return summary.figures

    def measure(self, number: int, fake: Tensor) -> Measurement:
        """Return what is measured of the translation of sample `number`."""
        sample = self.samples[number]
        assert sample.target is not None
        return self.evaluator.measure(fake, sample.target, self.predictor.weights(sample), number)

    def pictures(self, sample: Sample, fake: Tensor) -> dict[str, Tensor]:
        """Return what is shown of a sample and its translation, by kind; the differences on the page alone."""
        predictor, weights = self.predictor, self.predictor.weights(sample)
        assert sample.target is not None
        pictures = {"source": predictor.show_source(sample), "translated": predictor.show_target(fake, sample.target)}
        pictures["target"] = predictor.show_target(sample.target)
        pictures["difference"] = difference(pictures["translated"], pictures["target"])
        return pictures if weights is None else pictures | {"weights": weights_picture(weights)}

    def describe(self) -> list[str]:
        """Return lines for the report at the start, on what the figures are to be compared with."""
        return []

    def digest(self, figure: str) -> str:
        """Return a digest of what a figure is measured on: the samples, and how it is computed.

        Values of a figure can be compared where the digests are equal. The names of the files do not count.
        """
        digest = hashlib.blake2b(digest_size=16)
        digest.update(json.dumps(self.evaluator.basis(figure), sort_keys=True).encode())
        for sample in self.samples:
            maps = [getattr(sample, name) for name in MAPS if name != "weights"]
            maps.append(self.predictor.weights(sample) if figure in WEIGHTED else None)
            for pixels in maps:
                digest.update(f"{None if pixels is None else (pixels.dtype, *pixels.shape)}".encode())
                digest.update(b"" if pixels is None else pixels.contiguous().numpy().data)
        return digest.hexdigest()

    @contextmanager
    def _watched_activations(self) -> Iterator[list[Tensor]]:
        """Gather the outputs of the chosen module."""
        seen: list[Tensor] = []
        with ExitStack() as stack:
            if self.activations is not None:
                module = self.predictor.generator.get_submodule(self.activations)
                hook = module.register_forward_hook(lambda _module, _inputs, output: seen.append(output))
                stack.callback(hook.remove)
            yield seen


def channel_table(activations: Tensor) -> Tensor:
    """Return the first channels of (1, C, H, W) activations as one (3, H, W) uint8 image, each over its own range."""
    channels = activations[0, :N_SHOWN_CHANNELS].detach().float().cpu()
    low, high = (bound(channels, dim=(1, 2), keepdim=True) for bound in (torch.amin, torch.amax))
    grey = ((channels - low) / (high - low).clamp_min(1e-12) * 255).round().to(torch.uint8)
    images = [channel.expand(3, -1, -1) for channel in grey]
    return picture_table([images[start : start + 4] for start in range(0, len(images), 4)])
