from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from data.checks.observation import Observation
from data.checks.warnings import absent_classes, different_sides, repeated_samples, shared_files, split_warnings
from data.folder_store import LocalFile

GOOD = Observation(
    "",
    bits={"source": 8, "target": 8},
    constant={"source": (), "target": ()},
    n_channels={"source": 3, "target": 3},
    sizes={"source": (10, 10), "target": (10, 10)},
    shift=(0, 0),
)


def warnings_of(*changed: dict[str, Any], n: int = 5) -> list[str]:
    """The warnings of n good samples, of which the first have other fields."""
    fields = [*changed, *[{}] * (n - len(changed))]
    return list(split_warnings([replace(GOOD, name=f"s{number}", **own) for number, own in enumerate(fields)]))


@pytest.mark.parametrize("one", [{}, {"constant": {"target": (2,)}}, {"shift": (3, -2)}, {"shift": None}])
def test_what_a_good_sample_may_have_is_no_warning(one: dict[str, Any]) -> None:
    assert warnings_of(one) == list(split_warnings([])) == []


@pytest.mark.parametrize(
    ("one", "expected"),
    [
        ({"bits": {"source": 16, "target": 8}}, "sources have 8 bits, those of 1 of 5 samples 16: s0"),
        ({"constant": {"target": (1, 2, 3)}}, "targets of 1 of 5 samples are of one colour: s0"),
        ({"is_ignored": True}, "1 of 5 samples have weights of 0 everywhere, which ignores them: s0"),
        ({"equals_source": True}, "1 of 5 samples have a target that equals its source: s0; check that the folders"),
        ({"transparent": ["x.png"]}, "1 of 5 samples have transparency, which is dropped: s0; save them on a"),
        ({"shift": (6, -2)}, "targets seem to be shifted in 1 of 5 pairs: s0 by 6 pixels to the right and 2 pixels up"),
    ],
)
def test_one_sample_is_named(one: dict[str, Any], expected: str) -> None:
    (warning,) = warnings_of(one)
    assert warning.startswith(expected)


@pytest.mark.parametrize(
    ("all_have", "expected"),
    [
        ({"bits": {"source": 16, "target": 8}}, "sources have 16 bits, targets 8; check that neither is a preview"),
        ({"constant": {"source": (3,)}}, "channel 3 of sources is constant in every sample: it holds nothing to"),
        ({"shift": (0, -2)}, "targets seem to be shifted by 2 pixels up in 5 of 5 pairs"),
        ({"equals_source": True}, "5 of 5 samples have a target that equals its source: s0, s1, s2 and 2 more; "),
    ],
)
def test_what_all_samples_have_is_one_warning(all_have: dict[str, Any], expected: str) -> None:
    (warning,) = warnings_of(*[all_have] * 5)
    assert warning.startswith(expected)
    assert warnings_of(*[{"shift": (1, 0)}] * 5) == []


def test_values_of_no_data_are_counted_by_value() -> None:
    assert warnings_of({"no_data": {"target": (-9999.0, 10)}}, {"no_data": {"target": (-9999.0, 30)}}) == [
        "targets of 2 of 5 samples hold -9999 in 20.0% of their pixels, which seems to stand for no data: s0, s1; "
        "replace it, or set data.target_range=[LOW,HIGH] without it, or give such pixels a weight of 0 "
        "(data.weight_folder)"
    ]


def holding(folder: Path, name: str, *kinds: str) -> Observation:
    return Observation(name, files={kind: LocalFile.of(folder / f"{name}_{kind}") for kind in kinds})


def test_files_of_equal_bytes_in_two_splits(tmp_path: Path) -> None:
    for name, content in {"a": "one", "b": "two", "c": "one", "d": "longer", "e": "two", "f": "six"}.items():
        (tmp_path / f"{name}_source").write_text(content)

    def warnings_of(**names: str) -> list[str]:
        splits = {split: [holding(tmp_path, name, "source") for name in own] for split, own in names.items()}
        return list(shared_files(splits))

    (warning,) = warnings_of(train="ab", val="df", test="ce")
    files = f"{tmp_path / 'a_source'} and {tmp_path / 'c_source'}"
    assert warning.startswith(f"train and test share 2 files, as {files}: metrics of samples")
    assert warnings_of(train="ac") == []  # within a split
    assert warnings_of(train="ad", val="f") == []


def test_samples_that_are_copies_of_others(tmp_path: Path) -> None:
    begin = bytes(100_000)  # files of one size that differ at their ends alone are no copies
    contents = {"a": b"1", "b": b"2", "a_copy": b"1", "a_again": b"1", "half": b"1"}
    for name, content in contents.items():
        (tmp_path / f"{name}_source").write_bytes(begin + content)
        (tmp_path / f"{name}_target").write_bytes(begin + content * (2 if name == "half" else 1))
    pairs = [holding(tmp_path, name, "source", "target") for name in contents]
    (warning,) = repeated_samples({"train": pairs, "val": pairs[:2]})
    assert warning == "train: 2 of 5 samples are copies of others: a_copy of a, a_again of a"
    assert list(repeated_samples({"train": [holding(tmp_path, "a", "source")] * 2})) == []


def test_classes_that_are_not_trained_on_are_named() -> None:
    train = [Observation("a", classes=frozenset({0, 3})), Observation("b", classes=frozenset({3, 4}))]  # 4: ignored
    val = [Observation("c", classes=frozenset({1}))]
    names = dict(enumerate(["sky", "road", "car", "tree"]))
    rest = "nothing is learned of them"
    (line,) = absent_classes({"val": val, "train": train}, names)
    assert line == f"train: 2 of 4 classes never occur: road, car; {rest}"
    (line,) = absent_classes({"val": val}, names)
    assert line == f"val: 3 of 4 classes never occur: sky, car, tree; {rest}"
    for observations, known in ((train, {0: "sky"}), (train, {}), ([GOOD] * 2, names)):  # the last: sources are images
        assert list(absent_classes({"train": observations}, known)) == []
    (line,) = absent_classes({"train": train}, {k: str(k) for k in range(20)})
    assert "17 of 20 classes never occur: 1, 2, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14 and 5 more" in line


def side(*sizes: tuple[int, int], name: str = "source", **fields: Any) -> list[Observation]:
    return [Observation(f"s{n}", sizes={name: size}, **fields) for n, size in enumerate(sizes)]


@pytest.mark.parametrize(
    ("source", "target", "expected"),
    [
        (side((60, 90), (90, 60), (60, 90)), side((64, 64), name="target"), []),
        (
            side((300, 400)),
            side((24, 20), name="target"),
            ["A and B: images of 400x300 and of 20x24 pixels in the median; resizing blurs or stretches one side"],
        ),
        (side((100, 400)), side((400, 100), name="target"), ["A and B: images of 400x100 and of 100x400 pixels"]),
        (
            side((64, 64), (64, 64), (6, 6), (60, 70), (40, 2000), (64, 64)),
            side((64, 64), name="target"),
            ["A: 2 of 6 samples are of far other size or proportions than most: s2, s4; leave them out"],
        ),
        (
            side((64, 64)),
            side((64, 64), name="target", is_grey=True),
            ["A and B: all images of one side are grey, those of the other are not"],
        ),
        (side(), side((64, 64), name="target"), []),
    ],
)
def test_sides_that_differ_in_size_or_colour_are_named(
    source: list[Observation], target: list[Observation], expected: list[str]
) -> None:
    found = list(different_sides({"A": source, "B": target}))
    assert len(found) == len(expected)
    assert all(line.startswith(beginning) for line, beginning in zip(found, expected, strict=True))
