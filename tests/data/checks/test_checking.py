import multiprocessing
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from data.checks import checking
from data.checks.checking import Check, Checked, check_all
from data.preprocessing import Preprocessing
from data.side_by_side import SideBySide
from tests import processes  # noqa: F401 - its server forks at once
from tests.conftest import save_image

WHOLE = Preprocessing(
    mode="none", load_height=1, load_width=1, crop_height=1, crop_width=1, flip=False, size_multiple=8, min_size=8
)


def test_each_sample_is_checked_in_processes_as_in_this_one(tmp_path: Path) -> None:
    for name, width in {"a": 32, "b": 31, "c": 64}.items():
        save_image(tmp_path / f"{name}.png", np.zeros((16, width, 3), dtype=np.uint8))
    check = Check(SideBySide(folder=tmp_path, a_to_b=True), WHOLE, is_for_training=True)
    results = sorted(check_all(check, n_processes=2, timeout_s=60), key=lambda checked: checked.index)
    assert results == [check(index) for index in range(3)]
    plain = [replace(result, observation=None) for result in results]
    assert (plain[0], plain[2]) == (Checked(0, (), 16, 16), Checked(2, (), 16, 32))
    assert [result.observation is None for result in results] == [False, True, False]
    assert [problem.endswith("expected two halves of equal width") for problem in results[1].problems] == [True]


@pytest.mark.parametrize("method", ["fork", "forkserver", pytest.param("spawn", marks=pytest.mark.slow)])
def test_a_process_waits_for_samples_however_it_was_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, method: str
) -> None:
    save_image(tmp_path / "a.png", np.zeros((16, 32, 3), dtype=np.uint8))
    context = multiprocessing.get_context(method)
    monkeypatch.setattr(multiprocessing, "Process", context.Process)  # type: ignore[attr-defined]
    monkeypatch.setattr(checking, "_ORPHAN_S", 0.01)
    worker = checking._Worker(Check(SideBySide(folder=tmp_path, a_to_b=True), WHOLE, is_for_training=True), 0)
    try:
        assert worker.receive().problems == ()
        time.sleep(0.1)
        worker.give(0)
        assert worker.receive().problems == ()
    finally:
        worker.end()
