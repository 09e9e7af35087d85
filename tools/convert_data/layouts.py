"""Conversions between the layouts side_by_side and paired_folders."""

from collections.abc import Callable
from functools import partial
from pathlib import Path

import torch
from torch import Tensor

from data.batch import DataError
from data.folder_store import IMAGE_SUFFIXES, local_folder, visible_entries
from data.layout import Layout, PairingError
from data.paired_folders import PairedFolders, SideBySide
from tools.convert_data.conversion import Conversion


def to_folders(origin: Path, target: Path, suffix: str, problems: list[str]) -> list[Conversion]:
    """Return the halves of the images in each folder of `origin`; problems of the data set are added to `problems`.

    Raises:
        DataError: no folder holds images, or two of them are sources and targets already.
    """
    found = {folder: local_folder(folder).store.list(local_folder(folder)) for folder in _folders_in(origin)}
    folders = [folder for folder in found if any(file.suffix.lower() in IMAGE_SUFFIXES for file in found[folder])]
    if not folders:
        raise DataError(f"{origin}: expected a folder of images for each split, such as {origin / 'train'}")
    names = {folder.name for folder in folders}
    for split in (name.removesuffix("_A") for name in sorted(names)):
        if {f"{split}_A", f"{split}_B"} <= names:
            raise DataError(f"{origin}: {split}_A and {split}_B hold pairs in folders already")
    conversions = []
    for folder in folders:
        layout = _usable(partial(SideBySide, folder=folder, a_to_b=True), problems)
        for index, name in enumerate(layout.names):
            files = tuple(target / f"{folder.name}_{side}" / f"{name}{suffix}" for side in "AB")
            conversions.append(Conversion(name, folder.name, files, partial(_read_pair, layout, index)))
    return conversions


def to_side_by_side(origin: Path, target: Path, suffix: str, problems: list[str]) -> list[Conversion]:
    """Return the joined pairs of each SPLIT_A and SPLIT_B; problems of the data set are added to `problems`.

    Raises:
        DataError: there is no SPLIT_A.
    """
    splits = [folder.name.removesuffix("_A") for folder in _folders_in(origin) if folder.name.endswith("_A")]
    if not splits:
        raise DataError(f"{origin}: expected folders such as {origin / 'train_A'} and {origin / 'train_B'}")
    conversions = []
    for split in splits:
        a, b = origin / f"{split}_A", origin / f"{split}_B"
        layout = _usable(partial(PairedFolders, {"source": a, "target": b}), problems)
        for index, name in enumerate(layout.names):
            file = target / split / f"{name}{suffix}"
            conversions.append(Conversion(name, split, (file,), partial(_read_joined, layout, index)))
    return conversions


def _usable(build: Callable[[], Layout], problems: list[str]) -> Layout:
    """Return the layout of the samples that have all files; the problems of the others are added to `problems`."""
    try:
        return build()
    except PairingError as error:
        problems += error.problems
        return error.rest


def _read_pair(layout: Layout, index: int) -> tuple[Tensor, Tensor]:
    sample = layout.read(index)
    return sample.source, sample.maps["target"]


def _read_joined(layout: Layout, index: int) -> tuple[Tensor]:
    return (torch.cat(_read_pair(layout, index), dim=-1),)


def _folders_in(origin: Path) -> list[Path]:
    if not origin.is_dir():
        raise DataError(f"{origin}: no such folder")
    return [path for path in visible_entries(origin) if path.is_dir()]
