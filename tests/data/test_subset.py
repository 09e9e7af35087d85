from pathlib import Path

import numpy as np
import torch

from data.fingerprint import fingerprint
from data.held_back import Subset, groups_of, hold_back, smallest_share
from data.side_by_side import SideBySide
from tests.conftest import save_image


def pairs(folder: Path, n_samples: int) -> SideBySide:
    for number in range(n_samples):
        save_image(folder / f"{number}.png", np.full((4, 8, 3), number, np.uint8))
    return SideBySide(folder=folder, a_to_b=True)


def test_a_subset_is_a_layout_of_some_samples(tmp_path: Path) -> None:
    layout = pairs(tmp_path, 4)
    subset = Subset(layout, [2, 0])
    assert subset.names == ["2", "0"]
    assert [path.name for path in subset.files] == ["2.png", "0.png"]
    assert len(subset) == 2
    assert torch.equal(subset.read(0).source, layout.read(2).source)
    assert subset.origin(1) == layout.origin(0)
    assert len(fingerprint(subset)) == 4


def test_adding_samples_moves_none_from_one_side_to_the_other(tmp_path: Path) -> None:
    before = [set(side.names) for side in hold_back(pairs(tmp_path, 40), 0.2)]
    after = [set(side.names) for side in hold_back(pairs(tmp_path, 80), 0.2)]
    for early, late in zip(before, after, strict=True):
        assert early < late
    assert not after[0] & after[1]
    assert len(after[0]) + len(after[1]) == 80
    assert 8 <= len(after[1]) <= 24


def test_the_draw_stays_that_of_earlier_versions(tmp_path: Path) -> None:
    _, held_back = hold_back(pairs(tmp_path, 40), 0.2)
    assert held_back.names == ["12", "28", "36", "37", "38", "5"]


def test_groups_are_held_back_as_wholes_and_the_share_counts_them(tmp_path: Path) -> None:
    for patient in range(20):
        for number in range(1 + patient % 3):
            save_image(tmp_path / f"p{patient:02}_s{number}.png", np.zeros((4, 8, 3), np.uint8))
    layout = SideBySide(folder=tmp_path, a_to_b=True)
    rest, held_back = (groups_of(side.names, "p[0-9]+") for side in hold_back(layout, 0.3, "p[0-9]+"))
    assert not set(rest) & set(held_back)
    assert (len(set(rest) | set(held_back)), len(rest) + len(held_back)) == (20, len(layout))
    assert 3 <= len(set(held_back)) <= 9
    least = smallest_share(layout, "p[0-9]+")
    assert len(hold_back(layout, least, "p[0-9]+")[1])
    assert not len(hold_back(layout, least - 0.01, "p[0-9]+")[1])
