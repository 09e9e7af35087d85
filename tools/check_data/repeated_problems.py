"""Problems that most samples share, which are one problem: a setting is wrong, and not the files."""

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence

_FEW = 5  # samples, whose problems are listed one by one
_PLACE = re.compile(r"\(row \d+, column \d+\)")


def without_repetition(problems: Mapping[str, Sequence[str]], n_samples: int) -> Iterator[str]:
    """Yield problems, of which one that more than half of all samples have in the same way only once.

    problems: of the samples that have any, by name.
    n_samples: number of all samples.
    """
    alike: dict[str, list[str]] = defaultdict(list)
    kinds = {
        (name, problem): _PLACE.sub("", problem.replace(f"/{name}.", "/."))
        for name, of_sample in problems.items()
        for problem in of_sample
    }
    for (_, problem), kind in kinds.items():
        alike[kind].append(problem)
    for (_, problem), kind in kinds.items():
        same = alike[kind]
        if len(same) <= max(_FEW, n_samples / 2):
            yield problem
        elif problem is same[0]:
            yield f"{problem} (in {len(same)} of {n_samples} samples)"
