"""Hints for the user if the figures of a training show that it is stuck."""

from collections import Counter
from collections.abc import Callable, Mapping

import torch
from torch import Tensor

from utils.pictures import resize

# mean logits (real, translated) of a discriminator that has nothing left to learn, by adversarial loss
_WON = {"lsgan": (0.9, 0.1), "hinge": (1.0, -1.0), "vanilla": (4.0, -4.0)}
_REPORTS = 3  # reports in a row, because one may be chance
_THUMBNAIL = 32  # pixels
_NEGATIVE = -0.5  # correlation of brightness: -1 for a negative, 0.2 for two photos of streets
_ALIKE = 0.1  # variety of translations / of sources: 0.01 if each is one photo mixed with 10 % of its source
_LEAST_CONTRAST = 8.0  # levels of 255: less contrast looks grey
_UNCHANGED = 2.0  # levels of 255: JPEG of quality 85 changes photos by 1.9

# when a value needs a hint, and the hint, by the section of its tag
_LIMITS: Mapping[str, tuple[Callable[[float], bool], str]] = {
    "amp/scale": (
        lambda value: 1.0 != value < 64.0,  # GradScaler begins at 65536. 1: there is no scaler
        "the scale of the {name}'s gradients has fallen to {value:g}, because float16 overflows repeatedly. Use "
        "amp.dtype=bfloat16, or amp.opt_level=O0",
    ),
    "learning_rate": (
        lambda value: value > 0.01,  # initial weights have a deviation of 0.02
        "the learning rate of the {name} is {value:.4g}, and each step changes its weights by about as much. Set "
        "optimizer.learning_rate to 0.0002, or at most to 0.001",
    ),
    "loss": (
        lambda value: abs(value) > 1e6,  # terms begin below 100
        "the loss of {name} is {value:.4g}: the training has diverged. Start again with a lower "
        "optimizer.learning_rate, or with lower weights of losses",
    ),
}


class _InARow(Counter[str]):
    """Counts how often in a row a condition was true, by name."""

    def reaches(self, name: str, holds: bool, times: int = _REPORTS) -> bool:
        """Count a condition. Return True once, when it was true `times` times in a row."""
        self[name] = self[name] + 1 if holds else 0
        return self[name] == times


class Diagnostics:
    """Gives hints on the figures of a report: each hint once, and again if its cause returns.

    gan_mode: Adversarial loss. The logits of wgan are ignored, because they have no bounds.
    """

    def __init__(self, gan_mode: str) -> None:
        self._won = _WON.get(gan_mode)
        self._in_a_row = _InARow()

    def __call__(self, scalars: Mapping[str, float]) -> list[str]:
        """Return the hints for one report, given its scalars by tag."""
        hints = []
        for tag, value in scalars.items():
            section, _, name = tag.removesuffix("/total").rpartition("/")
            if section in _LIMITS:
                is_wrong, hint = _LIMITS[section]
                if self._in_a_row.reaches(tag, is_wrong(value), times=1):
                    hints.append(hint.format(name=name, value=value))
            elif self._won and section.startswith("logits/") and name == "real":
                fake, (above, below) = scalars[f"{section}/fake"], self._won
                if self._in_a_row.reaches(tag, value > above and fake < below):
                    hints.append(
                        f"the discriminator{section.removeprefix('logits/D').replace('_', ' ')} has won: its mean "
                        f"output is {value:.2f} for real images and {fake:.2f} for translated images, from which the "
                        "generator learns little. Lower optimizer.discriminator_learning_rate, or set "
                        "discriminator.spectral_norm=all in a new run"
                    )
        return hints


class TranslationHints:
    """Gives hints on translations of unpaired images: colours inverted, all alike, nothing changed.

    Each hint is given if it is true in several validations in a row, and again if its cause returns.
    """

    def __init__(self) -> None:
        self._in_a_row = _InARow()
        self._seen: list[tuple[Tensor, Tensor, Tensor]] = []  # thumbnails and difference of each pair

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
    """Return the variance between (N, 3, H, W) images, divided by all variance; 0 for equal or grey images."""
    between = images.var(0, correction=0).mean()
    whole = (images - images.mean((0, 2, 3), keepdim=True)).square().mean()
    return float(between / whole.clamp(min=_LEAST_CONTRAST**2))
