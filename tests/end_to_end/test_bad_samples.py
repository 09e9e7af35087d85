"""Runs with data.on_bad_sample=skip."""

from pathlib import Path

import numpy as np

from tests.conftest import save_image
from tests.runs import assert_equal, checkpoint, run, without_config


def test_a_run_that_skips_resumes_bit_for_bit(tiny_config: Path, tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    for name in "abcdef":
        for side in "AB":
            save_image(
                tmp_path / "pairs" / f"train_{side}" / f"{name}.png", rng.integers(0, 255, (32, 32, 3), np.uint8)
            )
    (tmp_path / "pairs" / "train_B" / "e.png").write_bytes(b"no image")
    data = ["data.layout=paired_folders", f"data.root={tmp_path / 'pairs'}", "data.instance_edges=false"]
    more = [*data, "data.on_bad_sample=skip", "checkpoint.every_steps=5"]
    run(tiny_config, *more, "train.max_steps=9")
    run(tiny_config, *more, "train.max_steps=5", "run.name=stopped")
    run(tiny_config, *more, "train.max_steps=9", "run.name=stopped", "data.workers=2")
    whole, stopped = (without_config(checkpoint(tiny_config, 9, name)) for name in ("tiny", "stopped"))
    assert_equal(whole, stopped)
