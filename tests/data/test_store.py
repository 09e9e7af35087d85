"""Layouts, fingerprints, caches and checks read from every store: here one that holds its files in memory."""

import io
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePath, PurePosixPath
from typing import ClassVar
from unittest.mock import Mock

import numpy as np
import pytest
import torch

import data
from configs.schema import Config, DataConfig
from configs.splits import has_split, open_split
from data import data_set_folder
from data.batch import DataError
from data.cache import CachedLayout, SampleCache
from data.checks.checking import Check
from data.files.pixels import StoredForm
from data.files.tiff_writer import write_tiff
from data.fingerprint import fingerprint
from data.layout import Layout, PairingError, describe_sample
from data.map_reader import MapReader
from data.paired_folders import PairedFolders, SideBySide
from data.store import Blob, Folder, Store
from tests.conftest import save_image
from tests.reliability.images import WHOLE
from tests.runs import assert_equal


@dataclass(frozen=True)
class MemoryBlob(Blob):
    """A file in memory."""

    content: bytes = field(default=b"", repr=False)

    def open(self, mode: str = "rb", /) -> io.BytesIO:
        return io.BytesIO(self.content)

    def size(self) -> int:
        return len(self.content)

    def state(self) -> str:
        return f"{self} {len(self.content)}"


@dataclass(frozen=True)
class MemoryStore(Store):
    """The files of a folder, read when the store is opened."""

    root: Path
    stores: ClassVar[dict[str, "MemoryStore"]] = {}

    @classmethod
    def opened(cls, root: str) -> Folder | None:
        is_there = root.startswith("memory:")
        return Folder(cls.stores.setdefault(root, cls(Path(root[7:]))), PurePosixPath()) if is_there else None

    def place(self, path: PurePath) -> str:
        return f"memory:{self.root / path}"

    def list(self, folder: Folder) -> list[Blob]:
        place = self.root / folder.path
        files = [path for path in place.rglob("*") if path.is_file()]
        return [MemoryBlob(folder, path.relative_to(place).as_posix(), path.read_bytes()) for path in files]

    def folders(self, folder: Folder) -> Sequence[str]:
        return sorted(path.name for path in (self.root / folder.path).iterdir() if path.is_dir())


def stacks(root: Path) -> tuple[PairedFolders, PairedFolders]:
    """Return a data set in folders, and the same one in memory.

    The folders hold arrays, TIFFs, images and weights.
    """
    random = np.random.default_rng(0)
    for name in ("a", "sub/b"):
        for folder in ("rgb", "depth", "height", "img", "weight"):
            (root / folder / name).parent.mkdir(parents=True, exist_ok=True)
        save_image(root / "rgb" / f"{name}.png", random.integers(0, 256, (8, 8, 3), np.uint8))
        np.save(root / "depth" / f"{name}.npy", random.random((1, 8, 8), np.float32))
        heights = random.integers(0, 2**16, (1, 8, 8), np.uint16)
        write_tiff(root / "height" / f"{name}.tif", torch.from_numpy(heights))
        save_image(root / "img" / f"{name}.jpg", random.integers(0, 256, (8, 8, 3), np.uint8))
        save_image(root / "weight" / f"{name}.png", random.integers(0, 256, (8, 8), np.uint8))
    store = MemoryStore(root)
    form = StoredForm(5, "data.source_channels", is_8_bit=False)

    def of(place: Callable[[str], Folder | Path]) -> PairedFolders:
        kinds = {"rgb": "source", "depth": "source_2", "height": "source_3", "img": "target", "weight": "weights"}
        return PairedFolders({kind: place(name) for name, kind in kinds.items()}, MapReader(forms={"source": form}))

    return of(lambda name: root / name), of(lambda name: Folder(store, PurePosixPath(name)))


def test_every_store_has_the_same_samples(tmp_path: Path) -> None:
    local, remote = stacks(tmp_path)
    assert list(local.names) == list(remote.names) == ["a", "sub/b"]
    for index in range(2):
        assert_equal(vars(local.read(index)), vars(remote.read(index)))


def test_fingerprints_are_equal_in_every_store_and_caches_serve_it(tmp_path: Path) -> None:
    local, remote = stacks(tmp_path / "data")
    assert torch.equal(fingerprint(local), fingerprint(remote))
    cached = CachedLayout(remote, WHOLE, SampleCache(tmp_path / "cache"))
    first = cached.read(0)
    remote.read = Mock(side_effect=AssertionError)  # type: ignore[method-assign]
    assert_equal(vars(cached.read(0)), vars(first))


def test_a_check_names_the_place_of_a_blob(tmp_path: Path) -> None:
    _, remote = stacks(tmp_path)
    checked = Check(remote, WHOLE, is_for_training=False)(0)
    assert str(checked.files[-1]) == f"memory:{tmp_path}/img/a.jpg"
    assert describe_sample(remote, 1) == f"sample sub/b of memory:{tmp_path}/rgb"


def test_the_first_store_that_takes_a_root_opens_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    save_image(tmp_path / "val" / "x.png", np.zeros((4, 8, 3), np.uint8))
    monkeypatch.setattr(data, "STORES", (MemoryStore, *data.STORES))
    config = Config(data=DataConfig(layout="side_by_side", root=f"memory:{tmp_path}"))
    layout: Layout = open_split(config, "val", needs_targets=True)
    assert str(next(layout.files)) == f"memory:{tmp_path}/val/x.png"
    assert [has_split(config, split) for split in ("train", "val")] == [False, True]
    assert str(data_set_folder(str(tmp_path))) == str(tmp_path)
    with pytest.raises(DataError, match=r"data\.root: no such folder: .*nowhere"):
        data_set_folder(str(tmp_path / "nowhere"))
    with pytest.raises(DataError, match=r"data\.root: is a file: .*x\.png\. Name its folder"):
        data_set_folder(str(tmp_path / "val" / "x.png"))


def test_a_folder_that_a_store_lacks_is_named(tmp_path: Path) -> None:
    with pytest.raises(PairingError, match=rf"^memory:{tmp_path}/train: no such folder$"):
        SideBySide(folder=Folder(MemoryStore(tmp_path), PurePosixPath("train")), a_to_b=True)
