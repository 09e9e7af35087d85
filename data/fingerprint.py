"""Fingerprints of data sets. A resumed run compares them to notice a changed data set."""

import hashlib
from collections import Counter
from collections.abc import Iterator

import torch
from torch import Tensor

from data.batch import DataError
from data.layout import Layout
from utils.text import listed


def fingerprint(layout: Layout) -> Tensor:
    """Return (M,) int64 digests of the names of samples, and of the sizes and names of files below their folders.

    Moving, copying or packing a data set into tar files does not change them. Raise DataError if a file is missing.
    """
    return torch.tensor([digest for digest, _ in _digests(layout)], dtype=torch.int64)


def difference(saved: Tensor, layout: Layout) -> str | None:
    """Describe how a data set differs from a saved fingerprint, or return None; raise DataError as `fingerprint`."""
    left = Counter(saved.tolist())
    new = []
    for digest, what in _digests(layout):
        if left[digest]:
            left[digest] -= 1
        else:
            new.append(what)
    n_gone = left.total()
    if not new and not n_gone:
        return None
    names = f" ({listed(new, 5)})" if new else ""
    return f"{len(new)} names or files are new or of another size{names}, {n_gone} are gone or were of another size"


def _digests(layout: Layout) -> Iterator[tuple[int, str]]:
    for name in (name for side in layout.sides for name in side.names):
        yield _digest(f"name {name}"), f"sample {name}"
    for file in layout.files:
        try:
            n_bytes = file.size()
        except OSError as error:
            raise DataError(f"{file}: {error.strerror}") from error
        yield _digest(f"file {layout.folders.index(file.folder)} {file.name} {n_bytes}"), file.name


def _digest(text: str) -> int:
    return int.from_bytes(hashlib.blake2b(text.encode("utf-8", "surrogateescape"), digest_size=8).digest(), signed=True)
