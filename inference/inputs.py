"""What the user names to be translated: a folder, several, single files, a list from standard input."""

import os
import sys
import unicodedata
from collections.abc import Sequence
from pathlib import Path

from data.batch import DataError, Sample
from data.image_files import find_images
from data.layout import Origin, PairingError
from data.map_reader import MapReader

STANDARD_INPUT = Path("-")


def read_list() -> list[Path]:
    """The paths on standard input, one in a line.

    Raises:
        DataError: there are none.
    """
    paths = [Path(line) for line in sys.stdin.read().splitlines() if line.strip()]
    if not paths:
        raise DataError("--input -: standard input holds no path; give one in each line, as find prints them")
    return paths


def common_folder(paths: Sequence[Path]) -> Path:
    """The innermost folder in which all lie; of one folder, this itself."""
    if len(paths) == 1 and paths[0].is_dir():
        return paths[0].resolve()
    return Path(os.path.commonpath([path.absolute().parent for path in paths]))


class ListedImages:
    """The samples of files and folders that the user lists, named by their paths from the folder that all lie in.

    Partners lie in a folder each, under the same name with any suffix. n_classes, ignore_id: as for PairedFolders.

    Raises:
        PairingError: a file is missing or lacks a partner, a folder holds no image, or two files have the same name.
    """

    def __init__(
        self,
        paths: Sequence[Path],
        *,
        target_folder: Path | None,
        instance_folder: Path | None,
        feature_folder: Path | None,
        n_classes: int,
        ignore_id: int | None,
    ) -> None:
        self.n_classes = n_classes
        self._reader = MapReader(n_classes, ignore_id)
        problems: list[str] = []
        partners = {"instances": instance_folder, "target": target_folder, "features": feature_folder}
        self._maps = {"source": _listed(paths, problems)}
        self._maps |= {kind: find_images(folder, problems) for kind, folder in partners.items() if folder}
        self.names = sorted(self._maps["source"])
        self.folders = [path for path in (*paths, *partners.values()) if path and path.is_dir()]
        if not problems:  # else that partners are missing would only hide it
            problems += [
                f"{self._maps['source'][name]}: without a partner {name} in {partners[kind]}"
                for name in self.names
                for kind in self._maps.keys() & partners.keys()
                if name not in self._maps[kind]
            ]
        if problems:
            raise PairingError(*problems)
        self.files = [files[name] for name in self.names for files in self._maps.values()]

    def __len__(self) -> int:
        return len(self.names)

    def origin(self, index: int) -> Origin:
        """See Layout."""
        return self._reader.origin(self._paths(index))

    def read(self, index: int) -> Sample:
        """The maps of sample `index` at full size; DataError tells all that stands against its files."""
        return self._reader.read(self.names[index], self._paths(index))

    def _paths(self, index: int) -> dict[str, Path]:
        return {kind: files[self.names[index]] for kind, files in self._maps.items()}


def _listed(paths: Sequence[Path], problems: list[str]) -> dict[str, Path]:
    """The images by name."""
    files: list[Path] = []
    for path in dict.fromkeys(paths):
        if path.is_dir():
            files += find_images(path, problems).values()
        elif path.exists():
            files.append(path)
        else:
            problems.append(f"--input: {path}: no such file or folder")
    root = common_folder(paths)
    images: dict[str, Path] = {}
    for path in files:
        name = unicodedata.normalize("NFC", path.absolute().relative_to(root).with_suffix("").as_posix())
        if images.setdefault(name, path).absolute() != path.absolute():
            problems.append(f"{path} and {images[name]} have the same name: keep one of them")
    return images
