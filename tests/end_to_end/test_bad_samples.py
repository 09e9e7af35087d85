"""Runs with data.on_bad_sample=skip."""

from pathlib import Path

import numpy as np
import pytest

from data.batch import DataError
from tests.conftest import save_image
from tests.runs import checkpoint, run


def pairs_of(root: Path, split: str, n: int) -> None:
    for number in range(n):
        for side in "AB":
            save_image(root / f"{split}_{side}" / f"{number}.png", np.full((32, 32, 3), 9 * number, np.uint8))


@pytest.mark.parametrize("split", ["train", "val"])
def test_the_first_sample_and_those_of_validation_are_skipped_too(
    tiny_config: Path, tmp_path: Path, split: str, capsys: pytest.CaptureFixture[str]
) -> None:
    root = tmp_path / "pairs"
    pairs_of(root, "train", 5)
    pairs_of(root, split, 5)
    bad = root / f"{split}_A" / "0.png"
    bad.write_bytes(b"")
    data = ["data.layout=paired_folders", f"data.root={root}", "data.instance_edges=false", "train.max_steps=1"]
    with pytest.raises(DataError, match=r"0\.png: cannot be read as an image: it is empty"):
        run(tiny_config, *data)
    run(tiny_config, *data, "data.on_bad_sample=skip", "log.images_every_steps=1")
    warning = f"skipped a bad sample, replaced by another one (1 of at most 10): {bad}: cannot be read as an image"
    assert warning in capsys.readouterr().out
    assert checkpoint(tiny_config, 1)["step"] == 1
    run(tiny_config, *data, "data.on_bad_sample=skip", "run.name=dry", "--dry-run")
    assert warning in capsys.readouterr().out
    for file in (root / f"{split}_A").iterdir():
        file.write_bytes(b"")
    with pytest.raises(DataError, match=r"\.png: cannot be read as an image: it is empty"):
        run(tiny_config, *data, "data.on_bad_sample=skip", "run.name=other")
