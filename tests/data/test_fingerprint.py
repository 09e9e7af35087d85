import shutil
from pathlib import Path

import numpy as np
import torch

from data.fingerprint import difference, fingerprint
from data.paired_folders import SideBySide
from tests.conftest import save_image


def pairs(folder: Path, *names: str) -> SideBySide:
    for name in names:
        save_image(folder / f"{name}.png", np.zeros((4, 8, 3), dtype=np.uint8))
    return SideBySide(folder=folder, a_to_b=True)


def test_a_copy_has_the_same_fingerprint(tmp_path: Path) -> None:
    layout = pairs(tmp_path / "here", "a", "b")
    shutil.copytree(tmp_path / "here", tmp_path / "there")
    copy = SideBySide(folder=tmp_path / "there", a_to_b=True)
    assert torch.equal(fingerprint(layout), fingerprint(copy))
    assert difference(fingerprint(layout), copy) is None


def test_a_difference_lists_what_is_new_and_counts_what_is_gone(tmp_path: Path) -> None:
    saved = fingerprint(pairs(tmp_path, "a", "b"))
    (tmp_path / "b.png").unlink()
    changed = pairs(tmp_path, "c")
    expected = "2 names or files are new or of another size (sample c, c.png), 2 are gone or were of another size"
    assert difference(saved, changed) == expected
    with (tmp_path / "a.png").open("ab") as file:
        file.write(b"\0")
    assert difference(fingerprint(changed), changed) is None
    assert str(difference(saved, changed)).startswith("3 names or files are new")
