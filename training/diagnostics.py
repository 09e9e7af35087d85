"""Hints for the user if the figures of a training show that it is stuck."""

from collections import Counter
from collections.abc import Mapping

import torch
from torch import Tensor

from utils.pictures import resize

# mean logits (real, translated) beyond which the discriminator has nothing left to learn, by adversarial loss
_WON = {"lsgan": (0.9, 0.1), "hinge": (1.0, -1.0), "vanilla": (4.0, -4.0)}
_REPORTS = 3  # in a row, since one may be chance
_THUMBNAIL = 32  # pixels
_NEGATIVE = -0.5  # correlation of brightness; -1 of a negative, 0.2 of one photo of a street with another
_ALIKE = 0.1  # share of the variety of sources; 0.01 of translations that mix one photo with 10 % of each source
_LEAST_CONTRAST = 8.0  # levels of 255: what varies less is grey to the eye
_UNCHANGED = 2.0  # levels of 255; photos change by 1.9 as JPEG of quality 85
_HIGH_RATE = 0.01  # Adam changes each weight by about the rate; initial weights have a deviation of 0.02
_HIGH_LOSS = 1e6  # terms begin below 100, and the networks see values from -1 to 1
_LOW_SCALE = 64.0  # GradScaler begins at 65536


class _InARow(Counter[str]):
    """How often in a row something has held, by name."""

    def reaches(self, name: str, holds: bool, times: int = _REPORTS) -> bool:
        """Count once more. Return True once, when it has held `times` times, until it ceases to hold."""
        self[name] = self[name] + 1 if holds else 0
        return self[name] == times


class Diagnostics:
    """Gives hints on the figures of a report: each once, and again after its cause has disappeared and returned.

    gan_mode: Adversarial loss. The logits of wgan have no bounds and are ignored.
    """

    def __init__(self, gan_mode: str) -> None:
        self._won = _WON.get(gan_mode)
        self._in_a_row = _InARow()

    def __call__(self, scalars: Mapping[str, float]) -> list[str]:
        """Return the hints for one report, given its scalars by tag."""
        hints = []
        for tag, value in scalars.items():
            match tag.split("/"):
                case ["logits", name, "real"] if self._won:
                    fake, (above, below) = scalars[f"logits/{name}/fake"], self._won
                    if self._in_a_row.reaches(tag, value > above and fake < below):
                        domain = name.removeprefix("D").replace("_", " ")
                        hints.append(
                            f"the discriminator{domain} has won: in the mean it gives real images {value:.2f} and "
                            f"translated ones {fake:.2f}, from which the generator learns little. Lower "
                            "optimizer.discriminator_learning_rate, or set discriminator.spectral_norm=all in a new run"
                        )
                case ["amp", "scale", name]:
                    is_low = 1.0 != value < _LOW_SCALE  # 1: there is no scaler
                    if self._in_a_row.reaches(tag, is_low, times=1):
                        hints.append(
                            f"the scale of the {name}'s gradients has fallen to {value:g}, since float16 overflows "
                            "repeatedly: use amp.dtype=bfloat16, or amp.opt_level=O0"
                        )
                case ["learning_rate", name]:
                    if self._in_a_row.reaches(tag, value > _HIGH_RATE, times=1):
                        hints.append(
                            f"the learning rate of the {name} is {value:.4g}, and each step changes its weights by "
                            "about that: set optimizer.learning_rate to 0.0002, or at most to 0.001"
                        )
                case ["loss", network, "total"]:
                    if self._in_a_row.reaches(tag, abs(value) > _HIGH_LOSS, times=1):
                        hints.append(
                            f"the loss of {network} is {value:.4g}: the training has diverged. Start again with a "
                            "lower optimizer.learning_rate, or with lower weights of losses"
                        )
        return hints


class TranslationHints:
    """Gives hints on translations of unpaired images: colours inverted, all alike, nothing changed.

    Each hint is given if it holds in several validations in a row, and again after its cause has disappeared.
    """

    def __init__(self) -> None:
        self._in_a_row = _InARow()
        self._seen: list[tuple[Tensor, Tensor, Tensor]] = []  # thumbnails and difference of each pair of a validation

    def add(self, source: Tensor, fake: Tensor) -> None:
        """Add the pictures of a source and its translation: (3, H, W) uint8, of one size."""
        small = [resize(image, _THUMBNAIL, _THUMBNAIL).float() for image in (source, fake)]
        self._seen.append((small[0], small[1], (source.float() - fake.float()).abs().mean()))

    def flush(self) -> list[str]:
        """Return the hints for the translations that were added since the last call."""
        sources, fakes, differences = (torch.stack(of) for of in zip(*self._seen, strict=True))
        self._seen = []
        correlation, difference = _correlation(sources, fakes), float(differences.mean())
        found = {
            f"translations look like negatives of their sources (correlation {correlation:.2f}). To keep the colours, "
            "start again with another run.seed, or with a larger weight of the identity loss": correlation < _NEGATIVE,
            "translations of different sources are alike: the generator has collapsed. Continue from an earlier "
            "checkpoint with a lower optimizer.learning_rate, or start again with another run.seed": len(fakes) > 1
            and _variety(fakes) < _ALIKE * _variety(sources),
            f"translations equal their sources: they differ by {difference:.1f} levels of 255. Train longer, or lower "
            "the weights of the losses besides the adversarial loss": difference < _UNCHANGED,
        }
        return [hint for n, (hint, holds) in enumerate(found.items()) if self._in_a_row.reaches(f"{n}", holds)]


def _correlation(sources: Tensor, fakes: Tensor) -> float:
    """Return the mean correlation of the brightness of (N, 3, H, W) images."""
    ours, others = (images.mean(1).flatten(1) for images in (sources, fakes))
    ours, others = ours - ours.mean(1, keepdim=True), others - others.mean(1, keepdim=True)
    return float(torch.cosine_similarity(ours, others).mean())


def _variety(images: Tensor) -> float:
    """Return the share of the variance of (N, 3, H, W) images that is between them; 0 for equal or grey images."""
    between = images.var(0, correction=0).mean()
    whole = (images - images.mean((0, 2, 3), keepdim=True)).square().mean()
    return float(between / whole.clamp(min=_LEAST_CONTRAST**2))
