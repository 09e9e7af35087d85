"""Files that several splits share."""

import hashlib
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from operator import methodcaller
from typing import Any

from data.folder import Blob
from utils.text import counted

_BEGIN = 65536  # bytes


def shared_files(splits: Mapping[str, Sequence[Blob]]) -> Iterator[str]:
    """Yield a line for each two splits, or domains of a split, that hold a file with the same bytes."""
    shared: dict[tuple[str, str], list[tuple[Blob, Blob]]] = defaultdict(list)
    for group in _of_same_bytes([(split, file) for split, files in splits.items() for file in files]):
        of_splits: dict[str, Blob] = {}
        for split, file in group:
            of_splits.setdefault(split, file)
        (first, file), *others = of_splits.items()
        for other, its_file in others:
            shared[first, other].append((file, its_file))
    for (first, other), pairs in shared.items():
        files = f"{counted(len(pairs), 'file')}, as {pairs[0][0]} and {pairs[0][1]}"
        yield f"{first} and {other} share {files}. Remove them from one of the two"


def _of_same_bytes(entries: list[tuple[str, Blob]]) -> list[list[tuple[str, Blob]]]:
    """Return the groups of entries with the same bytes. Only files whose beginnings agree are read whole."""
    groups = [entries]
    for property_of in (methodcaller("size"), _beginning, _digest):
        divided: dict[tuple[int, Any], list[tuple[str, Blob]]] = defaultdict(list)
        for number, group in enumerate(groups):
            for split, file in group:
                divided[number, property_of(file)].append((split, file))
        groups = [group for group in divided.values() if len(group) > 1]
    return groups


def _beginning(blob: Blob) -> bytes:
    with blob.open() as file:
        return hashlib.sha256(file.read(_BEGIN)).digest()


def _digest(blob: Blob) -> bytes:
    digest = hashlib.sha256()
    with blob.open() as file:
        while part := file.read(2**20):
            digest.update(part)
    return digest.digest()
