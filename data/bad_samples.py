"""Samples that are left out under data.on_bad_sample=skip: told once each, counted, and not too many."""

import logging
from collections.abc import Iterable
from dataclasses import dataclass

from data.batch import DataError

logger = logging.getLogger("pairgan")  # that of the run


@dataclass(frozen=True)
class BadSample:
    """The index of a sample that cannot be used, and why."""

    index: int
    reason: str


def most_bad_samples(n_samples: int) -> int:
    """How many different samples may be left out: 1 %, or 10 where that is more."""
    return max(10, n_samples // 100)


class BadSamples:
    """The samples of a run that were left out so far."""

    def __init__(self, n_samples: int) -> None:
        self._n_samples = n_samples
        self._known: set[int] = set()

    def add(self, samples: Iterable[BadSample]) -> None:
        """Warn of those that are new.

        Raises:
            DataError: they are too many.
        """
        most = most_bad_samples(self._n_samples)
        for sample in samples:
            if sample.index in self._known:
                continue
            self._known.add(sample.index)
            if len(self._known) > most:
                raise DataError(
                    f"more than {most} of {self._n_samples} samples cannot be used, too many for "
                    f"data.on_bad_sample=skip: python -m tools.check_data lists all; the last: {sample.reason}"
                )
            count = f"{len(self._known)} of at most {most}"
            logger.warning("another sample takes the place of one that is left out (%s): %s", count, sample.reason)
