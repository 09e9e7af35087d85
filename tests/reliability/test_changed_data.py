"""A data set that is another when a run goes on: row 13."""

import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from tests.conftest import save_image
from tests.runs import checkpoint, run
from utils.checkpoint import CheckpointError

pytestmark = pytest.mark.row(13)


def settings(root: Path) -> list[str]:
    return ["data.layout=paired_folders", f"data.root={root}", "data.n_classes=5", "data.preprocess=none"]


def add(root: Path) -> None:
    for kind, suffix in (("label", "png"), ("inst", "png"), ("img", "jpg")):
        shutil.copy(root / f"train_{kind}" / f"a.{suffix}", root / f"train_{kind}" / f"z.{suffix}")


def remove(root: Path) -> None:
    for path in root.glob("train_*/b.*"):
        path.unlink()


def rename(root: Path) -> None:
    for path in root.glob("train_*/b.*"):
        path.rename(path.with_stem("bb"))


def replace(root: Path) -> None:
    save_image(root / "train_img" / "b.jpg", np.full((32, 64, 3), 9, np.uint8))


NEW = "names or files were added or changed in size"
CHANGES: list[tuple[Callable[[Path], None], str]] = [
    (add, rf"4 {NEW} \(sample z, z.*\), 0 were removed"),
    (remove, rf"0 {NEW}, 4 were removed"),
    (rename, rf"4 {NEW} \(sample bb, .*\), 4 were removed"),
    (replace, rf"1 {NEW} \(b.jpg\), 1 were removed"),
]


def test_each_difference_is_reported_and_a_moved_data_set_has_none(tiny_config: Path, label_data_set: Path) -> None:
    run(tiny_config, *settings(label_data_set), "train.max_steps=4")
    for change, difference in CHANGES:
        changed = shutil.copytree(label_data_set, label_data_set.with_name(change.__name__))
        change(changed)
        with pytest.raises(CheckpointError, match=rf"has changed since: {difference}.*accept-changed-data"):
            run(tiny_config, *settings(changed), "train.max_steps=5")
    moved = label_data_set.rename(label_data_set.with_name("elsewhere"))
    run(tiny_config, *settings(moved), "train.max_steps=5")
    state = checkpoint(tiny_config, 5)
    assert (state["epoch"], state["samples_into_epoch"]) == (1, 2)


def test_a_difference_can_be_accepted_and_nothing_is_left_out_at_the_end_of_an_epoch(
    tiny_config: Path, label_data_set: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    run(tiny_config, *settings(label_data_set), "train.max_steps=3")  # an epoch
    add(label_data_set)
    run(tiny_config, *settings(label_data_set), "train.max_steps=5", "--accept-changed-data")
    assert "resuming from the next epoch" in capfd.readouterr().out
    state = checkpoint(tiny_config, 5)
    assert (state["epoch"], state["samples_into_epoch"]) == (1, 2)
    remove(label_data_set)
    run(tiny_config, *settings(label_data_set), "train.max_steps=6", "--accept-changed-data")
    state = checkpoint(tiny_config, 6)
    assert (state["epoch"], state["samples_into_epoch"]) == (2, 1)
    run(tiny_config, *settings(label_data_set), "train.max_steps=7")  # what was accepted is what is known now
