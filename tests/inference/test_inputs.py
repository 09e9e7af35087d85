from pathlib import Path

import numpy as np
import pytest

from data.map_reader import MapReader
from inference.inputs import ListedImages, common_folder
from tests.conftest import save_image


def test_listed_files_may_be_in_folders_above(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("a/x", "b/y"):
        save_image(tmp_path / f"{name}.png", np.zeros((4, 4, 3), np.uint8))
    monkeypatch.chdir(tmp_path / "b")
    layout = ListedImages([Path("../a/x.png"), Path("y.png"), Path("../b/y.png")], {}, reader=MapReader())
    assert layout.names == ["a/x", "b/y"]
    assert common_folder([Path("../a"), Path("../b")]) == tmp_path
