"""Hints for the user if translations look wrong in unpaired training."""

from collections import Counter

import torch
from torch import Tensor

from utils.pictures import resize

_IN_A_ROW = 3  # number of validations in a row that must show a problem before its hint is given
_THUMBNAIL = 32  # pixels
_NEGATIVE = -0.5  # correlation between the brightness of source and translation; -1 for a negative image
_ALIKE = 0.1  # variety of the translations divided by the variety of the sources
_LEAST_CONTRAST = 8.0  # levels of 255; images with less contrast look grey
_UNCHANGED = 2.0  # mean difference in levels of 255; JPEG of quality 85 changes photos by 1.9


class TranslationHints:
    """Finds inverted colours, mode collapse and unchanged images in translations of unpaired training.

    A hint is given when its problem appears in several validations in a row, and again if the problem returns.
    """

    def __init__(self) -> None:
        self._in_a_row = Counter[int]()
        self._seen: list[tuple[Tensor, Tensor, Tensor]] = []  # two thumbnails and a difference

    def add(self, source: Tensor, fake: Tensor) -> None:
        """Add a source and its translation, (3, H, W) uint8 each, of the same size."""
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
            f"translations equal their sources: they differ by {difference:.1f} on a scale of 0 to 255. Train "
            "longer, or lower the weights of all losses except the adversarial loss": difference < _UNCHANGED,
        }
        for number, holds in enumerate(found.values()):
            self._in_a_row[number] = self._in_a_row[number] + 1 if holds else 0
        return [hint for number, hint in enumerate(found) if self._in_a_row[number] == _IN_A_ROW]


def _correlation(sources: Tensor, fakes: Tensor) -> float:
    """Return the mean correlation between the brightness of sources and translations, (N, 3, H, W) each."""
    source, fake = (images.mean(1).flatten(1) for images in (sources, fakes))
    source, fake = source - source.mean(1, keepdim=True), fake - fake.mean(1, keepdim=True)
    return float(torch.cosine_similarity(source, fake).mean())


def _variety(images: Tensor) -> float:
    """Return the variance between (N, 3, H, W) images divided by their total variance. Images of one grey give 0."""
    between = images.var(0, correction=0).mean()
    whole = (images - images.mean((0, 2, 3), keepdim=True)).square().mean()
    return float(between / whole.clamp(min=_LEAST_CONTRAST**2))
