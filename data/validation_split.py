"""Split samples into training and validation. A group, such as all images of a patient, stays in one split."""

import hashlib
import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from itertools import combinations

from data.batch import Sample
from data.layout import DerivedLayout, Layout, Provenance
from utils.errors import ConfigError
from utils.text import counted

KEY = "train.validation_group"
_BEGINNING = re.compile(r".*\d\D+(?=\d)", re.DOTALL)  # text before the last number, if it contains a number


class Subset(DerivedLayout):
    """A layout with the samples of another layout at `indices`, in this order."""

    def __init__(self, layout: Layout, indices: Sequence[int]) -> None:
        super().__init__(layout)
        self.names = [layout.names[index] for index in indices]
        self._indices = indices

    @property
    def groups(self) -> Sequence[str]:
        """See Layout."""
        groups = self._layout.groups
        return [groups[index] for index in self._indices]

    def provenance(self, index: int) -> Provenance:
        """See Layout."""
        return self._layout.provenance(self._indices[index])

    def read(self, index: int) -> Sample:
        """See Layout."""
        return self._layout.read(self._indices[index])


def split_validation(layout: Layout, share: float, group: str | None = None) -> tuple[Layout, Layout]:
    """Return the training samples and the validation samples of a layout. Each domain is split separately.

    A hash of the group's name decides its split. By default, each sample is a group. New samples therefore do not
    change the split of other samples.

    share: Approximate fraction of the samples, or of the groups, that go to validation (0 to 1).
    group: Regular expression for `groups_of`. A group stays in one split.

    Raises:
        ConfigError: A name has no group.
    """

    def subset(is_validation: bool, side: Layout) -> Layout:
        positions = enumerate(_positions(side, group))
        return Subset(side, [index for index, found in positions if (found < share) is is_validation])

    return layout.by_side(partial(subset, False)), layout.by_side(partial(subset, True))


def possible_shares(layout: Layout, group: str | None = None) -> tuple[float, float]:
    """Return the smallest and the largest `share` that give both splits at least one sample of each domain.

    Shares are multiples of 0.01. If no share is possible, the largest share is below the smallest share.
    """
    positions = [sorted(_positions(side, group)) or [1.0] for side in layout.sides]
    least, most = max(of_side[0] for of_side in positions), min(of_side[-1] for of_side in positions)
    return (int(100 * least) + 1) / 100, int(100 * most) / 100


def _positions(layout: Layout, group: str | None) -> Iterator[float]:
    """Yield the hash of each sample's group, in [0, 1). tools.convert_data splits with another, independent hash."""
    for name in layout.groups if group is None else groups_of(layout.names, group):
        digest = hashlib.blake2b(name.encode("utf-8", "surrogateescape"), digest_size=8, person=b"validation").digest()
        yield int.from_bytes(digest) / 2**64


def groups_of(names: Sequence[str], pattern: str) -> list[str]:
    """Return the group of each name: the match of a regular expression, or the content of its parentheses.

    Raise ConfigError if a name does not match.
    """
    found = [re.search(pattern, name) for name in names]
    groups = [" ".join(part or "" for part in match.groups()) or match[0] if match else "" for match in found]
    without = [name for name, group in zip(names, groups, strict=True) if not group.strip()]
    if without:
        count = f"{len(without)} of {len(names)} names"
        raise ConfigError(f"{KEY}={pattern} matches no group in {count}, such as {without[0]}: extend the pattern")
    return groups


def shared_groups(splits: Mapping[str, Sequence[str]]) -> Iterator[str]:
    """Yield a message for each pair of splits whose names share a prefix, such as p001_slice in p001_slice03.

    A prefix ends before the last number, and must contain a number. If all names have the same prefix, it is ignored.

    splits: Names of samples, by split.
    """
    for (first, names), (second, others) in combinations(splits.items(), 2):
        ours, theirs = _by_beginning(names), _by_beginning(others)
        shared = sorted(ours.keys() & theirs.keys())
        if shared and len(ours.keys() | theirs.keys()) > 1:
            name, other = ours[shared[0]], theirs[shared[0]]
            yield (
                f"{first} and {second} share {counted(len(shared), 'name prefix', 'name prefixes')}, as in {name} "
                f"and {other}: if these show one patient, scene or video, metrics are too good. Keep such samples in "
                f"one split; if there is no split val, {suggested_setting(name)} keeps them together"
            )


def suggested_setting(name: str) -> str:
    """Return a setting that groups samples by the prefix of their names. `name` is an example."""
    beginning = _BEGINNING.match(name)
    pattern = re.sub(r"\d+", r"\\d+", re.escape(beginning[0] if beginning else name)).replace(r"\ ", r"\s")
    return f"{KEY}={shlex.quote(pattern)}"


def _by_beginning(names: Sequence[str]) -> Mapping[str, str]:
    """Return a mapping from each prefix to the first name with this prefix."""
    return {match[0]: name for name in reversed(names) if (match := _BEGINNING.match(name))}
