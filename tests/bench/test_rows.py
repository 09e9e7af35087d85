"""The columns of the bench's tables, computed from given figures."""

import pytest

import bench.data
from bench.cases import Case
from bench.inference import COMPILED, CPU_CASES, GPU_CASES, level_of, sides_of
from bench.measure import Timed
from bench.scaling import growth_rows, process_rows


def test_growth_is_against_the_first_case() -> None:
    cases = [Case("small", 500, 1000), Case("batch", 500, 1000, batch_size=3)]
    timed = {"small": Timed([1.0, 10.0], 0.5), "batch": Timed([3.0, 20.0], 1.0)}
    small, batch = growth_rows(timed, {"small": 10**9, "batch": 3 * 10**9}, cases)
    assert batch["time grows by"] == 2.5
    assert batch["arithmetic grows by"] == 3.0
    assert batch["memory grows by"] == 2.0
    assert batch["GiB per further megapixel"] == 0.5
    assert small["time grows by"] == small["arithmetic grows by"] == small["memory grows by"] == 1.0
    assert small["GiB per further megapixel"] is None
    assert list(small) == list(batch)


def test_processes_are_compared_by_turns() -> None:
    one, two = process_rows({1: [(10.0, 0.5), (20.0, 0.7)], 2: [(9.0, 0.5), (22.0, 0.5)]})
    expected = {"processes": 1, "joint steps/s": 15.0, "images/s": 15.0, "against one": 1.0, "GiB of a process": 0.6}
    assert one == pytest.approx(expected)
    assert two["joint steps/s"] == 7.75
    assert two["against one"] == pytest.approx(1.0)


def test_loaders_are_compared_with_the_reference_of_as_many_workers() -> None:
    speeds = {"reference": [1.0, 2.0, 1.0], "decoded": [3.0, 4.0, 3.0]}
    reference, decoded = bench.data.rows_of("folders", 2, speeds)
    assert decoded == {"layout": "folders", "side": "decoded", "workers": 2, "samples/s": 3.0, "times as fast": 3.0}
    assert list(reference.values()) == ["folders", "reference", 2, 1.0, 1.0]
    (alone,) = bench.data.rows_of("drawn", 0, {"decoded": [3.0]})
    assert alone["times as fast"] is None


def test_translation_is_measured_at_each_level_by_batch_and_from_files() -> None:
    for cases in (CPU_CASES, GPU_CASES):
        alone, batch, files, spade = (sides_of(case) for case in cases)
        assert spade == alone
        assert [level_of(side) for side in alone] == ["O0", "O0", "O1", "O2", "O3", "O2"]
        assert [level_of(side) for side in batch] == ["O0", "O2"]
        assert files == [*batch, COMPILED]
        assert [case.batch_size for case in cases] == [1, 8, 4, 1]
        assert [case.name.startswith("PNG to PNG") for case in cases] == [False, False, True, False]
