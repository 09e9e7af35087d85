"""The store of a file system, and remedies for folders that are not where they were expected."""

import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import BinaryIO, Literal

from data.batch import DataError
from data.store import Blob, Folder, Store
from utils.data_root import data_root_problem
from utils.paths import expanded

IMAGE_SUFFIXES = frozenset({".png", ".jpg", ".jpeg", ".ppm", ".bmp", ".tif", ".tiff", ".svs", ".webp"})
VIDEO_SUFFIXES = frozenset({".mp4", ".mov", ".mkv", ".avi", ".webm", ".m4v"})
HIDDEN = re.compile(  # names that begin with a dot, and folders that systems and NAS devices add
    r"(?i)/(\.|([#@$]recycle(\.bin)?|@(eadir|recently-snapshot)|[#~]snapshot|lost\+found|__macosx|system volume \w+)/)"
)
SPLITS = ("train", "val", "test")
_LISTED_FOLDERS = 8


@dataclass(frozen=True)
class FolderStore(Store):
    """The files of this machine, by their paths."""

    @classmethod
    def opened(cls, root: str) -> Folder:
        """Return the folder that `data.root` names; `~` is the user's home.

        Raises:
            DataError: there is no such folder.
        """
        if problem := data_root_problem(root):
            raise DataError(problem)
        return Folder(cls(), expanded(root, "data.root"))

    def place(self, path: os.PathLike[str]) -> str:
        """Return the path."""
        return str(path)

    def list(self, folder: Folder) -> list[Blob]:
        """Return the files below a folder that are not hidden; links to folders are not followed.

        Broken links are files: their samples would otherwise be missing unnoticed.

        Raises:
            DataError: a folder cannot be listed.
        """

        def fail(error: OSError) -> None:
            raise DataError(f"{error.filename}: {error.strerror}")

        found, root = list[Blob](), Path(folder.path)
        for parent, folders, files in os.walk(root, onerror=fail if root.is_dir() else None):
            folders[:] = [name for name in folders if not is_hidden(name)]
            below = Path(parent).relative_to(root)
            for name in files:
                path = Path(parent, name)
                if not is_hidden(name) and (path.is_file() or not path.exists()):
                    found.append(LocalFile(folder, (below / name).as_posix()))
        return found

    def folders(self, folder: Folder) -> Sequence[str]:
        """See Store."""
        return [path.name for path in visible_entries(Path(folder.path)) if path.is_dir()] if self.has(folder) else []

    def has(self, folder: Folder) -> bool:
        """Return whether a path names a folder, which may be empty."""
        return Path(folder.path).is_dir()

    def absence(self, folder: Folder) -> str:
        """Return what is wrong with the path of a folder, which folders are beside it, and a remedy."""
        path = Path(folder.path)
        beside = visible_entries(path.parent) if path.parent.is_dir() else []
        named = ", ".join([other.name for other in beside if other.is_dir()][:_LISTED_FOLDERS]) or "none"
        named += (misplaced := misplaced_folder(path))
        may_be_photos = not misplaced and not path.exists()
        has_images = may_be_photos and any(other.suffix.lower() in IMAGE_SUFFIXES for other in beside)
        remedy = "; python -m tools.convert_data from-photos makes pairs of photographs" if has_images else ""
        if may_be_photos and any(other.suffix == ".tar" for other in beside):
            remedy = f"; python -m tools.convert_data index-shards {path.parent} makes a data set of the tar files"
        what = "is a file, expected a folder" if path.exists() else "no such folder"
        return f"{what}; folders beside it: {named}{remedy}"


class LocalFile(Blob):
    """A file of this machine."""

    @classmethod
    def of(cls, path: Path) -> Blob:
        """Return the file at a path."""
        return cls(local_folder(path.parent), path.name)

    def __str__(self) -> str:
        return str(self.path)

    @cached_property
    def path(self) -> Path:
        """Its path, made once: a sample is read many times."""
        return Path(self.folder.path, self.name)

    def open(self, mode: Literal["rb"] = "rb", /) -> BinaryIO:
        """See Blob."""
        return self.path.open(mode)

    def size(self) -> int:
        """See Blob."""
        return self.path.stat().st_size

    def state(self) -> str:
        """Return its path without links, its size, its time and its number in the file system."""
        path, state = self.path, self.path.stat()
        return f"{path.resolve()}:{state.st_size}:{state.st_mtime_ns}:{state.st_ino}"


def local_folder(folder: Folder | Path) -> Folder:
    """Return a folder of a store. A path names a folder of this machine."""
    return Folder(FolderStore(), folder) if isinstance(folder, Path) else folder


def is_hidden(name: str) -> bool:
    """Return whether a file or folder is no data: its name begins with a dot, or a system or a NAS has made it.

    Every list of images leaves these out. Otherwise thumbnails and deleted images would count as images.
    """
    return HIDDEN.search(f"/{name}/") is not None


def visible_entries(folder: Path) -> list[Path]:
    """Return the files and folders in a folder that are not hidden, sorted."""
    return sorted(path for path in folder.iterdir() if not is_hidden(path.name))


def misplaced_folder(folder: Path) -> str:
    """Return a remedy for a missing folder of a split, as "; did you mean X?"; empty where none is known.

    folder: as ROOT/train, ROOT/train_A or ROOT/train_label.
    """
    root, name = folder.parent, folder.name
    split, _, kind = name.rpartition("_")
    if (split or name) not in SPLITS or not root.is_dir():
        return ""
    if found := next(filter(os.path.isdir, _elsewhere(folder)), None):  # none of those that cannot be read
        return f"; did you mean {found}? Set data.root={found.parent}"
    if not split:
        is_paired = (root / f"{name}_A").is_dir()
        return f"; {name}_A and {name}_B are data.layout=paired_folders" if is_paired else ""
    if found := next(filter(os.path.isdir, _named_otherwise(folder)), None):
        pattern = found.relative_to(root).as_posix().replace(split, "{split}")
        return f"; did you mean {found}? data.source_folder={pattern} or data.target_folder={pattern} names it"
    is_joined = kind in ("A", "B") and (root / split).is_dir()
    return f"; {split} with both halves in each file is data.layout=side_by_side" if is_joined else ""


def _elsewhere(folder: Path) -> Iterator[Path]:
    """Yield a folder of that name above the root, and those one folder further down."""
    yield folder.parent.parent / folder.name
    for beside in visible_entries(folder.parent):
        yield beside / folder.name


def _named_otherwise(folder: Path) -> Iterator[Path]:
    """Yield what else train_A may be called: trainA, A/train."""
    letters = folder.name.replace("_", "").casefold()
    for beside in visible_entries(folder.parent):
        if re.sub(r"[\W_]", "", beside.name).casefold() == letters:
            yield beside
    split, _, kind = folder.name.rpartition("_")
    yield folder.parent / kind / split
