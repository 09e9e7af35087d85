from pathlib import Path

import numpy as np

from data.loader import difference, fingerprint
from data.paired_folders import SideBySide
from tests.conftest import save_image


def pairs(folder: Path, *names: str) -> SideBySide:
    for name in names:
        save_image(folder / f"{name}.png", np.zeros((4, 8, 3), dtype=np.uint8))
    return SideBySide(folder=folder, a_to_b=True)


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
