"""Groups of samples, as of a patient or a scene, by parts of their names."""

import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations

from utils.errors import ConfigError
from utils.text import counted

KEY = "train.validation_group"
_BEGINNING = re.compile(r".*\d\D+(?=\d)", re.DOTALL)  # before the last number, and with a number of its own


def groups_of(names: Sequence[str], pattern: str) -> list[str]:
    """Return the group of each name: what a regular expression finds in it, or what its parentheses hold of that.

    Raises:
        ConfigError: it finds nothing in a name.
    """
    found = [re.search(pattern, name) for name in names]
    groups = [" ".join(part or "" for part in match.groups()) or match[0] if match else "" for match in found]
    without = [name for name, group in zip(names, groups, strict=True) if not group.strip()]
    if without:
        count = f"{len(without)} of {len(names)} names"
        raise ConfigError(f"{KEY} is {pattern}, which finds no group in {count}, such as {without[0]}: extend it")
    return groups


def shared_beginnings(first: Sequence[str], second: Sequence[str]) -> list[tuple[str, str]]:
    """Return two names, one of each side, for each group that both sides hold, judging by the beginnings of names.

    A beginning is all before the last number, as p001_slice of p001_slice03. It is taken for a group where it has a
    number of its own, and where names have several.
    """
    ours, theirs = _by_beginning(first), _by_beginning(second)
    shared = sorted(ours.keys() & theirs.keys())
    return [(ours[group], theirs[group]) for group in shared] if len(ours.keys() | theirs.keys()) > 1 else []


def shared_groups(splits: Mapping[str, Sequence[str]]) -> Iterator[str]:
    """Yield a line for each two splits in which names begin alike before their last number; see `shared_beginnings`.

    splits: the names of samples, by split.
    """
    for (first, names), (second, others) in combinations(splits.items(), 2):
        shared = shared_beginnings(names, others)
        if shared:
            ours, theirs = shared[0]
            yield (
                f"{first} and {second} share {counted(len(shared), 'beginning')} of names, as {ours} and {theirs}: if "
                "these are of one patient, scene or video, metrics are too good. Keep such samples in one split; "
                f"without a split val, {suggested_setting(ours)} holds them back together"
            )


def suggested_setting(name: str) -> str:
    """Return the setting that holds back samples whose names begin as `name`, as one group."""
    beginning = _BEGINNING.match(name)
    pattern = re.sub(r"\d+", r"\\d+", re.escape(beginning[0] if beginning else name)).replace(r"\ ", r"\s")
    return f"{KEY}={shlex.quote(pattern)}"


def _by_beginning(names: Sequence[str]) -> Mapping[str, str]:
    """Return the first name of each beginning."""
    beginnings: dict[str, str] = {}
    for name in names:
        if match := _BEGINNING.match(name):
            beginnings.setdefault(match[0], name)
    return beginnings
