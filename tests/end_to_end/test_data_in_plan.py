"""The lines of the plan on files, or parts of them, that are not read."""

from pathlib import Path

import numpy as np
import pytest

from tests.conftest import save_image
from tests.runs import run


def test_files_of_other_formats_and_transparency_are_counted_before_the_first_step(
    tiny_config: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for side, n_channels in {"A": 4, "B": 3}.items():
        save_image(tmp_path / "pairs" / f"train_{side}" / "x.png", np.zeros((32, 32, n_channels), np.uint8))
    for name in ("a.gif", "b.gif", "c.heic"):
        (tmp_path / "pairs" / "train_A" / name).touch()
    data = ["data.layout=paired_folders", f"data.root={tmp_path / 'pairs'}", "data.instance_edges=false"]
    run(tiny_config, *data, "--dry-run")
    lines = capsys.readouterr().out.splitlines()
    assert "left out       files of other formats: 2 .gif, 1 .heic" in lines
    assert any(line.startswith("data           1 sample, the first is x 32x32") for line in lines)
    file = tmp_path / "pairs" / "train_A" / "x.png"
    assert f"transparency   is dropped, which 1 of these samples has, such as {file}" in lines
