"""Splits that seem to share a patient, a scene or a video, by the names of their samples."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations

from data.groups import shared_beginnings, suggested_setting
from utils.text import counted


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
