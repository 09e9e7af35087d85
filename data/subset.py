"""Some samples of a layout, and the draw of those that are held back from training."""

import hashlib
from collections.abc import Sequence

from data.batch import Sample
from data.groups import groups_of
from data.layout import Layout, Origin


class Subset:
    """The samples of a layout at some indices, in that order, as a layout of their own."""

    def __init__(self, layout: Layout, indices: Sequence[int]) -> None:
        self.n_classes = layout.n_classes
        self.names: Sequence[str] = [layout.names[index] for index in indices]
        self.folders = layout.folders
        self.files = [file for index in indices for file in layout.origin(index).files]
        self._layout = layout
        self._indices = indices

    def __len__(self) -> int:
        return len(self._indices)

    def origin(self, index: int) -> Origin:
        """Return what the content of sample `index` depends on."""
        return self._layout.origin(self._indices[index])

    def read(self, index: int) -> Sample:
        """Read sample `index` at full size.

        Raises:
            DataError: its files cannot be used.
        """
        return self._layout.read(self._indices[index])


def hold_back(layout: Layout, share: float, group: str | None = None) -> tuple[Subset, Subset]:
    """Split a layout into the samples to train on and about a `share` of them that is held back.

    A sample is held back by the hash of its name alone: adding samples moves none from one side to the other.

    group: a regular expression on names, whose groups are held back as wholes, by the hashes of their names; see
        `groups_of`. The share is then one of the groups.

    Raises:
        ConfigError: a name is of no group.
    """
    is_held_back = [_position(name) < share for name in _drawn(layout, group)]
    sides = [[index for index, held in enumerate(is_held_back) if held is side] for side in (False, True)]
    return Subset(layout, sides[0]), Subset(layout, sides[1])


def smallest_share(layout: Layout, group: str | None = None) -> float:
    """Return the smallest share, in hundredths, with which `hold_back` holds back a sample; 1 without samples."""
    return (int(100 * min(map(_position, _drawn(layout, group)), default=1)) + 1) / 100


def _drawn(layout: Layout, group: str | None) -> Sequence[str]:
    """Return the name by which each sample is drawn: its own, or that of its group."""
    return layout.names if group is None else groups_of(layout.names, group)


def _position(name: str) -> float:
    """Return the place of a name in [0, 1), drawn apart from that by which tools.convert_data draws splits."""
    digest = hashlib.blake2b(name.encode("utf-8", "surrogateescape"), digest_size=8, person=b"validation").digest()
    return int.from_bytes(digest) / 2**64
