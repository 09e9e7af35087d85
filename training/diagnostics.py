"""Hints for the user if translations without pairs look wrong."""

from collections import Counter

import torch
from torch import Tensor

from utils.pictures import resize

_IN_A_ROW = 3  # validations in a row, because one may be chance
_THUMBNAIL = 32  # pixels
_NEGATIVE = -0.5  # correlation of brightness: -1 for a negative, 0.2 for two photos of streets
_ALIKE = 0.1  # variety of translations / of sources: 0.01 if each is one photo mixed with 10 % of its source
_LEAST_CONTRAST = 8.0  # levels of 255: less contrast looks grey
_UNCHANGED = 2.0  # levels of 255: JPEG of quality 85 changes photos by 1.9


class TranslationHints:
    """Gives hints on translations of unpaired images: colours inverted, all alike, nothing changed.

    Each hint is given if it is true in several validations in a row, and again if its cause returns.
    """

    def __init__(self) -> None:
        self._in_a_row = Counter[int]()
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
        for number, holds in enumerate(found.values()):
            self._in_a_row[number] = self._in_a_row[number] + 1 if holds else 0
        return [hint for number, hint in enumerate(found) if self._in_a_row[number] == _IN_A_ROW]


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
