"""Runs on data sets with bad samples, with all kinds of maps, and with a cache."""

from pathlib import Path

import numpy as np
import pytest

from configs.load import load_config
from configs.splits import cache_folder
from data.batch import DataError
from tests.conftest import save_image
from tests.runs import assert_same_state, checkpoint, run


def pairs_of(root: Path, split: str, n: int) -> None:
    for number in range(n):
        for side in "AB":
            save_image(root / f"{split}_{side}" / f"{number}.png", np.full((32, 32, 3), 9 * number, np.uint8))


def test_bad_samples_end_a_run_or_are_skipped_in_validation_too(
    tiny_config: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    root = tmp_path / "pairs"
    for split in ("train", "val"):
        pairs_of(root, split, 5)
        (root / f"{split}_A" / "0.png").write_bytes(b"")
    data = ["data.layout=paired_folders", f"data.root={root}", "data.instance_edges=false", "train.max_steps=5"]
    with pytest.raises(DataError, match=r"0\.png: cannot be read as an image: it is empty"):
        run(tiny_config, *data)
    run(tiny_config, *data, "data.on_bad_sample=skip", "log.images_every_steps=5")
    said = capsys.readouterr().out
    for split in ("train", "val"):
        bad = root / f"{split}_A" / "0.png"
        assert f"of at most 10): {bad}: cannot be read as an image" in said
    assert checkpoint(tiny_config, 5)["step"] == 5
    for file in (root / "train_A").iterdir():
        file.write_bytes(b"")
    with pytest.raises(DataError, match=r"\.png: cannot be read as an image: it is empty"):
        run(tiny_config, *data, "data.on_bad_sample=skip", "run.name=other")


def settings(root: Path, *more: str) -> list[str]:
    return ["data.layout=paired_folders", "data.n_classes=5", f"data.root={root}", "data.crop_height=32", *more]


def kept(folder: Path) -> list[Path]:
    """Return the files of a cache."""
    return list(folder.rglob("*.pt"))


def test_a_run_with_a_cache_equals_one_without(tiny_config: Path, label_data_set: Path, tmp_path: Path) -> None:
    arguments = settings(label_data_set, "train.max_steps=4")
    run(tiny_config, *arguments, "run.name=plain")
    for place, n_kept in (("memory", 0), (tmp_path / "cache", 3)):
        run(tiny_config, *arguments, f"data.cache={place}", f"data.workers={int(n_kept == 0)}", "--resume", "never")
        assert_same_state(tiny_config, 4, "plain")
        assert len(kept(tmp_path / "cache")) == n_kept
    config = load_config(tiny_config, [*arguments, "data.cache=memory"])
    folder = cache_folder(config, tiny_config.parent / "runs" / "tiny")
    assert folder is not None
    assert not folder.exists()
