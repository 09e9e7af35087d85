"""Samples that are held back from training, and groups of samples by their names."""

import re
import shlex
from pathlib import Path

import numpy as np
import pytest
import torch
import yaml

from data.loader import fingerprint
from data.paired_folders import SideBySide
from data.validation_split import Subset, groups_of, possible_shares, shared_groups, split_validation, suggested_setting
from tests.conftest import save_image
from utils.errors import ConfigError

SLICES = ["p001_slice03", "p001_slice09", "p002_slice03"]


def pairs(folder: Path, *names: str) -> SideBySide:
    for number, name in enumerate(names):
        save_image(folder / f"{name}.png", np.full((4, 8, 3), number, np.uint8))
    return SideBySide(folder=folder, a_to_b=True)


def test_a_subset_is_a_layout_of_some_samples(tmp_path: Path) -> None:
    layout = pairs(tmp_path, *"0123")
    subset = Subset(layout, [2, 0])
    assert subset.names == ["2", "0"]
    assert [path.name for path in subset.files] == ["2.png", "0.png"]
    assert torch.equal(subset.read(0).source, layout.read(2).source)
    assert subset.provenance(1) == layout.provenance(0)
    assert len(fingerprint(subset)) == 4


def test_adding_samples_moves_none_from_one_side_to_the_other(tmp_path: Path) -> None:
    before, after = (
        [set(side.names) for side in split_validation(pairs(tmp_path, *map(str, range(n))), 0.2)] for n in (40, 80)
    )
    assert before[1] == {"12", "28", "36", "37", "38", "5"}  # equal to earlier versions
    assert before[0] < after[0]
    assert before[1] < after[1]
    assert not after[0] & after[1]
    assert len(after[0]) + len(after[1]) == 80


def test_groups_are_held_back_as_wholes_and_the_share_counts_them(tmp_path: Path) -> None:
    names = [f"p{patient:02}_s{number}" for patient in range(20) for number in range(1 + patient % 3)]
    layout = pairs(tmp_path, *names)
    rest, held_back = (set(groups_of(side.names, "p[0-9]+")) for side in split_validation(layout, 0.3, "p[0-9]+"))
    assert not rest & held_back
    assert len(rest | held_back) == 20
    assert 3 <= len(held_back) <= 9
    least, most = possible_shares(layout, "p[0-9]+")
    for side, share, beyond in ((1, least, least - 0.01), (0, most, most + 0.01)):
        assert split_validation(layout, share, "p[0-9]+")[side].names
        assert not split_validation(layout, beyond, "p[0-9]+")[side].names


@pytest.mark.parametrize(
    ("pattern", "expected"),
    [
        (r"^(p\d+)_slice\d+$", ["p001", "p001", "p002"]),
        (r"(p)(\d+)_", ["p 001", "p 001", "p 002"]),
        (r"slice\d+", ["slice03", "slice09", "slice03"]),
    ],
)
def test_a_group_is_what_the_expression_or_its_parentheses_find(pattern: str, expected: list[str]) -> None:
    assert groups_of(SLICES, pattern) == expected


@pytest.mark.parametrize("pattern", [r"p001", r"x*", r"(x)?p002"])
def test_a_name_without_a_group_is_an_error(pattern: str) -> None:
    with pytest.raises(ConfigError, match=r"matches no group in . of 3 names, such as p00"):
        groups_of(SLICES, pattern)


@pytest.mark.parametrize(
    ("first", "second", "is_shared"),
    [
        (["p1/t2-7", "p2/t2-7"], ["p2/t2-9"], True),
        (["image_001", "image_002"], ["image_003"], False),  # the beginning has no number
        (["BraTS20_001", "BraTS20_002"], ["BraTS20_003"], False),  # all names begin so
        (["aachen_000001_000019"], ["bonn_000001_000019"], False),
    ],
)
def test_splits_share_a_beginning_that_stands_for_a_group(first: list[str], second: list[str], is_shared: bool) -> None:
    assert bool(list(shared_groups({"train": first, "val": second}))) == is_shared


@pytest.mark.parametrize("name", ["p001_slice03", "scan 7.b-2/12"])
def test_the_suggested_setting_groups_what_begins_alike(name: str) -> None:
    (word,) = shlex.split(suggested_setting(name))
    key, _, pattern = word.partition("=")
    assert key == "train.validation_group"
    assert groups_of([name, name + "5"], yaml.safe_load(pattern)) == [re.sub(r"\d+$", "", name)] * 2
