"""Samples that are skipped under data.on_bad_sample=skip, each reported once, up to a limit."""

import logging
from collections.abc import Iterable
from dataclasses import dataclass

from data.batch import DataError

logger = logging.getLogger("pairgan")  # the logger of the run


@dataclass(frozen=True)
class BadSample:
    """The index of a sample that cannot be used, and the reason."""

    index: int
    reason: str


def max_bad_samples(n_samples: int) -> int:
    """Return how many different samples may be skipped: 1 %, or 10 where that is more."""
    return max(10, n_samples // 100)


class BadSamples:
    """The samples that a run has skipped so far."""

    def __init__(self, n_samples: int) -> None:
        self._n_samples = n_samples
        self._known: set[int] = set()

    def add(self, samples: Iterable[BadSample]) -> None:
        """Add samples, with a warning for each that is new.

        Raises:
            DataError: there are more than `max_bad_samples`.
        """
        most = max_bad_samples(self._n_samples)
        for sample in samples:
            if sample.index in self._known:
                continue
            self._known.add(sample.index)
            if len(self._known) > most:
                raise DataError(
                    f"more than {most} of {self._n_samples} samples cannot be used, too many for "
                    f"data.on_bad_sample=skip; the last one: {sample.reason}. List all with python -m tools.check_data."
                )
            count = f"{len(self._known)} of at most {most}"
            logger.warning("skipped a bad sample, replaced by another one (%s): %s", count, sample.reason)
