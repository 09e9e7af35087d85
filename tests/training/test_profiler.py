import gzip
import json
from pathlib import Path

import pytest
import torch

from training.profiler import SKIPPED_STEPS, profiler


@pytest.mark.parametrize("n_made", [SKIPPED_STEPS + 3, 4])
def test_a_trace_has_the_steps_after_the_first_ones(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, n_made: int
) -> None:
    caplog.set_level("INFO", "pairgan")
    with profiler(tmp_path / "trace.json.gz", 2) as end_step:
        for _ in range(n_made):
            torch.ones(1) + 1
            end_step()
    if n_made < SKIPPED_STEPS:
        assert not (tmp_path / "trace.json.gz").exists()
        assert "trace.json.gz begins after 10 steps" in caplog.text
        return
    with gzip.open(tmp_path / "trace.json.gz") as file:
        names = [str(event.get("name")) for event in json.load(file)["traceEvents"]]
    assert sum(name.startswith("ProfilerStep#") for name in names) >= 2
    assert "aten::add" in names
