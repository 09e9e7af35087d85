"""Where a folder of a data set may be that is not where it was expected."""

import re
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path

SPLITS = ("train", "val", "test")


def misplaced_folder(folder: Path) -> str:
    """Return a remedy for a missing folder of a split, as "; did you mean X?"; empty where none is known.

    folder: as ROOT/train, ROOT/train_A or ROOT/train_label.
    """
    root, name = folder.parent, folder.name
    split, _, kind = name.rpartition("_")
    if (split or name) not in SPLITS or not root.is_dir():
        return ""
    if found := _first_folder(_elsewhere(folder)):
        return f"; did you mean {found}? Set data.root={found.parent}"
    if not split:
        is_paired = (root / f"{name}_A").is_dir()
        return f"; {name}_A and {name}_B are data.layout=paired_folders" if is_paired else ""
    if found := _first_folder(_named_otherwise(folder)):
        pattern = found.relative_to(root).as_posix().replace(split, "{split}")
        return f"; did you mean {found}? data.source_folder={pattern} or data.target_folder={pattern} names it"
    is_joined = kind in ("A", "B") and (root / split).is_dir()
    return f"; {split} with both halves in each file is data.layout=side_by_side" if is_joined else ""


def _first_folder(paths: Iterable[Path]) -> Path | None:
    for path in paths:
        with suppress(OSError):  # a folder above it cannot be read
            if path.is_dir():
                return path
    return None


def _elsewhere(folder: Path) -> Iterator[Path]:
    """Yield a folder of that name above the root, and those one folder further down."""
    yield folder.parent.parent / folder.name
    for beside in sorted(folder.parent.iterdir()):
        yield beside / folder.name


def _named_otherwise(folder: Path) -> Iterator[Path]:
    """Yield what else train_A may be called: trainA, A/train."""
    letters = folder.name.replace("_", "").casefold()
    for beside in sorted(folder.parent.iterdir()):
        if re.sub(r"[\W_]", "", beside.name).casefold() == letters:
            yield beside
    split, _, kind = folder.name.rpartition("_")
    yield folder.parent / kind / split
