"""What every layout offers, and the checks that layouts on disk share."""

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import torch
from torch import Tensor

from data.batch import DataError, Sample


@dataclass(frozen=True)
class Origin:
    """What the content of a sample depends on: the bytes of files, and what is made of them.

    rule: what each file holds, and all settings that matter; of a sample that is drawn, what it is drawn from.
    files: in the order that the rule names.
    """

    rule: str
    files: Sequence[Path] = ()

    def states(self) -> str:
        """Names, sizes and times of the files: another text once one of them is written to or replaced."""
        return self._of_each(_state)

    def digests(self) -> str:
        """Another text once a byte of the files is another, wherever they are; reads them."""
        return self._of_each(_digest)

    def _of_each(self, property_of: Callable[[Path], str]) -> str:
        texts = []
        for path in self.files:
            try:
                texts.append(property_of(path))
            except OSError as error:
                raise DataError(f"{path}: {error.strerror}") from error
        return " ".join(texts)


class Layout(Protocol):
    """One split of a data set."""

    @property
    def n_classes(self) -> int:
        """Number of classes; 0 where the source is an RGB image."""
        ...

    @property
    def names(self) -> Sequence[str]:
        """The names of the samples, by index."""
        ...

    @property
    def folders(self) -> Sequence[Path]:
        """The folders that it reads."""
        ...

    @property
    def files(self) -> Sequence[Path]:
        """The files that it reads."""
        ...

    def __len__(self) -> int:
        """Number of samples."""
        ...

    def origin(self, index: int) -> Origin:
        """What the content of sample `index` depends on."""
        ...

    def read(self, index: int) -> Sample:
        """Sample `index` at full size; DataError where its files cannot be used."""
        ...


class PairingError(DataError):
    """Some samples of a split are not whole.

    rest: the layout of those that are.
    """

    def __init__(self, *problems: str, rest: Layout | None = None) -> None:
        super().__init__(*problems)
        self.rest = rest


def sample_in_words(layout: Layout, index: int) -> str:
    """Sample `index` as it is told to the user."""
    return f"sample {layout.names[index]}" + (f" of {layout.folders[0]}" if layout.folders else "")


def check_enough(layout: Layout, joint_batch_size: int) -> None:
    """Raise DataError unless the train split fills a batch of all processes."""
    if len(layout) < joint_batch_size:
        raise DataError(
            f"the train split has {len(layout)} samples, fewer than train.batch_size x processes = "
            f"{joint_batch_size}: lower train.batch_size"
        )


def checked_classes(ids: Tensor, path: Path, *, n_classes: int, ignore_id: int | None) -> Tensor:
    """Class ids in the form of `Sample.source`, from a (1, H, W) int32 map.

    Raises:
        DataError: a pixel is neither a class nor ignored.
    """
    dtype = torch.uint8 if n_classes <= 255 else torch.int32
    lowest, highest = (int(bound) for bound in ids.aminmax())
    is_within = lowest >= 0 and highest < n_classes
    if is_within and (ignore_id is None or not lowest <= ignore_id <= highest):
        return ids.to(dtype)  # most maps: comparing pixel by pixel takes a tenth of reading them
    is_ignored = ids == ignore_id if ignore_id is not None else torch.zeros_like(ids, dtype=torch.bool)
    is_wrong = ((ids < 0) | (ids >= n_classes)) & ~is_ignored
    if is_wrong.any():
        _, row, column = (int(i) for i in is_wrong.nonzero()[0])
        wrong = int(ids[0, row, column])
        raise DataError(
            f"{path}: pixel (row {row}, column {column}) holds id {wrong}, allowed are 0 to {n_classes - 1}"
            f"{'' if ignore_id is None else f' and {ignore_id}'}: "
            f"raise data.n_classes, or set data.ignore_id={wrong} to leave such pixels out"
        )
    return ids.masked_fill(is_ignored, n_classes).to(dtype)


def size_problems(first: Tensor, first_path: Path, second: Tensor, second_path: Path) -> list[str]:
    """What stands against two maps of a sample: nothing where they have the same height and width."""
    if first.shape[-2:] == second.shape[-2:]:
        return []
    sizes = [f"{tensor.shape[-1]}x{tensor.shape[-2]}" for tensor in (first, second)]
    return [f"{first_path} is {sizes[0]} but its partner {second_path} is {sizes[1]}: make them the same size"]


def _state(path: Path) -> str:
    state = path.stat()
    return f"{path.resolve()}:{state.st_size}:{state.st_mtime_ns}:{state.st_ino}"


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
