from pathlib import Path
from typing import Any

import numpy as np
import pytest

from data.checks.observation import observe, split_warnings
from data.files.stored_images import StoredForm
from data.layout import Layout
from data.map_reader import MapReader
from data.paired_folders import PairedFolders
from data.side_by_side import SideBySide
from tests.conftest import save_image

HALF_TRANSPARENT = np.full((8, 16, 4), 127, np.uint8)
OPAQUE = np.full((8, 16, 4), 255, np.uint8)
GREY = np.zeros((8, 16), np.uint8)


def stored(n_channels: int) -> StoredForm:
    return StoredForm(n_channels, "data.source_channels", is_8_bit=True)


def paired(root: Path, forms: dict[str, StoredForm] | None = None, n_classes: int = 0, **folders: Any) -> Layout:
    return PairedFolders(source_folder=root / "A", reader=MapReader(n_classes, forms=forms or {}), **folders)


def lost(layout: Layout) -> list[str]:
    return [path.name for path in observe(layout, 0, layout.read(0)).transparent]


@pytest.fixture
def root(tmp_path: Path) -> Path:
    save_image(tmp_path / "A" / "x.png", HALF_TRANSPARENT)
    save_image(tmp_path / "B" / "x.png", OPAQUE)
    save_image(tmp_path / "C" / "x.png", GREY)
    return tmp_path


def test_transparency_that_is_dropped_is_one_warning(root: Path) -> None:
    layout = paired(root, target_folder=root / "A")
    (warning,) = [text for text in split_warnings([observe(layout, 0, layout.read(0))]) if "transparen" in text]
    assert warning.startswith("transparency is dropped, which 1 of 1 samples have: x; ")
    assert lost(SideBySide(folder=root / "A", a_to_b=True)) == ["x.png"]
    stack = paired(root, further_folders=[root / "C"], forms={"source": stored(4)})
    assert lost(stack) == ["x.png"]


def test_nothing_is_lost(root: Path) -> None:
    assert lost(paired(root, forms={"source": stored(4)})) == []
    assert lost(paired(root, further_folders=[root / "C"], forms={"source": stored(5)})) == []
    assert lost(SideBySide(folder=root / "B", a_to_b=True)) == []


def test_labels_are_no_images(root: Path) -> None:
    save_image(root / "A" / "x.png", GREY)
    assert lost(paired(root, n_classes=2, target_folder=root / "B")) == []
