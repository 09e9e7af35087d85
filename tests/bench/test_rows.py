"""The columns of the bench's tables, computed from given figures."""

import pytest

import bench.data
from bench.cases import Case
from bench.inference import COMPILED, CPU_CASES, GPU_CASES, level_of, sides_of
from bench.scaling import rows_of


def test_processes_are_compared_by_turns() -> None:
    turns = {1: [{"s": 1.0}, {"s": 10.0}], 2: [{"s": 1.0, "waiting s": 0.5}, {"s": 8.0, "waiting s": 0.25}]}
    one, two = rows_of(Case("x", 32, 32, batch_size=3), turns)
    expected = {"case": "x", "processes": 2, "images/s": 3.375, "against one": 2.25, "s": 4.5, "waiting s": 0.375}
    assert two == pytest.approx(expected)
    assert one["against one"] == 1.0


def test_loaders_are_compared_with_the_reference_of_as_many_workers() -> None:
    speeds = {"reference": [1.0, 2.0, 1.0], "decoded": [3.0, 4.0, 3.0]}
    reference, decoded = bench.data.rows_of("folders", 2, speeds)
    assert decoded == {"layout": "folders", "side": "decoded", "workers": 2, "samples/s": 3.0, "times as fast": 3.0}
    assert list(reference.values()) == ["folders", "reference", 2, 1.0, 1.0]


def test_translation_is_measured_at_each_level_by_batch_and_from_files() -> None:
    for cases in (CPU_CASES, GPU_CASES):
        alone, batch, files, spade = (sides_of(case) for case in cases)
        assert spade == alone
        assert [level_of(side) for side in alone] == ["O0", "O0", "O1", "O2", "O3", "O2"]
        assert [level_of(side) for side in batch] == ["O0", "O2"]
        assert files == [*batch, COMPILED]
        assert [case.batch_size for case in cases] == [1, 8, 4, 1]
        assert [case.name.startswith("PNG to PNG") for case in cases] == [False, False, True, False]
