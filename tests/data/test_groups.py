import re
import shlex

import pytest
import yaml

from data.held_back import groups_of, shared_beginnings, shared_groups, suggested_setting
from utils.errors import ConfigError

SLICES = ["p001_slice03", "p001_slice09", "p002_slice03"]


@pytest.mark.parametrize(
    ("pattern", "expected"),
    [
        (r"p\d+", ["p001", "p001", "p002"]),
        (r"^(p\d+)_slice\d+$", ["p001", "p001", "p002"]),
        (r"(p)(\d+)_", ["p 001", "p 001", "p 002"]),
        (r"slice\d+", ["slice03", "slice09", "slice03"]),
    ],
)
def test_a_group_is_what_the_expression_or_its_parentheses_find(pattern: str, expected: list[str]) -> None:
    assert groups_of(SLICES, pattern) == expected


@pytest.mark.parametrize("pattern", [r"p001", r"x*", r"(x)?p002"])
def test_a_name_without_a_group_is_an_error(pattern: str) -> None:
    problem = rf"^train\.validation_group is {re.escape(pattern)}, which finds no group in . of 3 names, such as p00"
    with pytest.raises(ConfigError, match=problem):
        groups_of(SLICES, pattern)


@pytest.mark.parametrize(
    ("first", "second", "expected"),
    [
        (SLICES, ["p001_slice10", "p009_slice01"], [("p001_slice03", "p001_slice10")]),
        (["p1/t2-7", "p2/t2-7"], ["p2/t2-9"], [("p2/t2-7", "p2/t2-9")]),
        (["image_001", "image_002"], ["image_003"], []),  # the beginning has no number
        (["001", "002"], ["003"], []),
        (["BraTS20_001", "BraTS20_002"], ["BraTS20_003"], []),  # all names begin so
        (["aachen_000001_000019"], ["bonn_000001_000019"], []),
    ],
)
def test_splits_share_a_beginning_that_stands_for_a_group(
    first: list[str], second: list[str], expected: list[tuple[str, str]]
) -> None:
    assert shared_beginnings(first, second) == expected


@pytest.mark.parametrize("name", ["p001_slice03", "scan 7.b-2/12", "patient 1 slice 3"])
def test_the_suggested_setting_groups_what_begins_alike(name: str) -> None:
    (word,) = shlex.split(suggested_setting(name))
    key, _, pattern = word.partition("=")
    assert key == "train.validation_group"
    assert groups_of([name, name + "5"], yaml.safe_load(pattern)) == [re.sub(r"\d+$", "", name)] * 2


def test_splits_that_share_a_patient_are_named_with_the_remedy() -> None:
    names = {"train": ["p001_slice03", "p002_slice03"], "val": ["p001_slice09"], "test": ["p003_slice01"]}
    (line,) = shared_groups(names)
    assert line.startswith("train and val share 1 beginning of names, as p001_slice03 and p001_slice09: if these are")
    assert line.endswith(r"without a split val, train.validation_group='p\d+_slice' holds them back together")
    assert list(shared_groups({"train": ["1", "2"], "val": ["3"]})) == []
