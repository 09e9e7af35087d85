"""The lines of the plan: samples that are held back or too small, and disks that are."""

import shutil
from collections import namedtuple
from pathlib import Path

import numpy as np
import pytest
import torch

from configs.load import load_config
from configs.unused_settings import unused_settings
from data.batch import Sample
from data.held_back import Subset
from data.paired_folders import SideBySide
from tests.conftest import save_image
from tests.runs import built, run
from training.resume import find_checkpoint, restore
from training.run_data import HELD_BACK, Splits
from training.start_report import check_size, count_more_files, describe_shortage, describe_validation, free_bytes
from utils.errors import ConfigError


def test_the_plan_warns_of_names_that_begin_alike_unless_groups_are_named(tiny_config: Path, tmp_path: Path) -> None:
    for name in ("p001_s1", "p001_s2", "p002_s1", "p003_s1"):
        save_image(tmp_path / f"{name}.png", np.zeros((4, 8, 3), np.uint8))
    layout = SideBySide(folder=tmp_path, a_to_b=True)
    config = load_config(tiny_config, ["train.validation_share=0.5"])
    leaking = Splits(Subset(layout, [0, 2]), HELD_BACK, Subset(layout, [1, 3]))
    _, warning = describe_validation(config, leaking, 2)
    assert "names begin alike: p001_s1 and p001_s2; if these are of one patient" in warning
    assert r"train.validation_group='p\d+_s' keeps them on one side" in warning
    whole = Splits(Subset(layout, [0, 1]), HELD_BACK, Subset(layout, [2, 3]))
    assert describe_validation(config, whole, 2) == [
        "validation     2 of 2 training samples held back by train.validation_share=0.5"
    ]
    in_groups = load_config(tiny_config, ["train.validation_share=0.5", "train.validation_group=p[0-9]+"])
    assert "train.validation_group=p[0-9]+" not in unused_settings(in_groups)
    alone = load_config(tiny_config, ["train.validation_group=p[0-9]+"])
    assert "train.validation_group=p[0-9]+" in unused_settings(alone)
    (line,) = describe_validation(in_groups, whole, 2)
    assert line.endswith(", 2 of 3 groups of train.validation_group=p[0-9]+")
    each = load_config(tiny_config, ["train.validation_share=0.5", "train.validation_group=.*"])
    (line,) = describe_validation(each, whole, 2)
    assert line.endswith(", 2 of 4 groups of train.validation_group=.*: each sample is one")


@pytest.mark.parametrize(
    ("setting", "width", "message"),
    [
        ("loss.vgg=1", 8, "shorter side of the target of x has 8 pixels, and VGG19 needs 16"),
        ("discriminator.n_scales=6", 32, "the shorter side of the target of x has 32 pixels, enough for 5: lower it"),
    ],
)
def test_images_that_are_too_small_are_an_error(tiny_config: Path, setting: str, width: int, message: str) -> None:
    image = torch.zeros(3, 32, width, dtype=torch.uint8)
    with pytest.raises(ConfigError, match=message):
        check_size(load_config(tiny_config, [setting]), Sample("x", image, None, image))


Disk = namedtuple("Disk", "total used free")


def set_free(monkeypatch: pytest.MonkeyPatch, free: float) -> None:
    monkeypatch.setattr(shutil, "disk_usage", lambda _: Disk(2**60, 0, int(free)))


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        (["train.max_steps=100", "checkpoint.every_steps=10"], 3 + 1),  # one is written before the oldest is deleted
        (["train.max_steps=100", "checkpoint.every_steps=10", "checkpoint.best=auto"], 3 + 1 + 1),
        (["train.max_steps=95", "checkpoint.every_steps=10", "checkpoint.keep=0"], 10),
        (["train.max_steps=4"], 1),
    ],
)
def test_files_of_a_new_run_are_counted(tiny_config: Path, settings: list[str], expected: int) -> None:
    assert count_more_files(built(tiny_config, *settings), continues=True) == expected


def test_what_a_run_has_already_is_not_counted_again(trained_config: Path) -> None:
    training = built(trained_config, "train.max_steps=100", "checkpoint.every_steps=10")
    found = find_checkpoint(training.folder, "auto")
    assert found
    restore(training, found)
    assert count_more_files(training, continues=True) == 3
    assert count_more_files(training, continues=False) == 4


@pytest.mark.parametrize(
    ("share", "settings", "expected"),
    [
        (4.1, [], None),
        (3.9, [], "lower checkpoint.keep=3"),
        (3.9, ["checkpoint.keep=0"], "limit checkpoint.keep=0"),
        (1.9, ["checkpoint.keep=1"], ": free space"),
        (2.9, ["checkpoint.keep=1", "checkpoint.best=l1"], "or set checkpoint.best=none"),
    ],
)
def test_a_disk_too_small_for_all_is_a_warning(
    tiny_config: Path, monkeypatch: pytest.MonkeyPatch, share: float, settings: list[str], expected: str | None
) -> None:
    training = built(tiny_config, "checkpoint.every_steps=1", *settings)
    set_free(monkeypatch, training.run_state.n_bytes * share)
    lines = describe_shortage(training, continues=True)
    assert [line.endswith(expected or "") for line in lines] == ([True] if expected else [])


def test_a_disk_too_small_for_one_is_an_error_and_leaves_no_folder(
    tiny_config: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    set_free(monkeypatch, built(tiny_config).run_state.n_bytes * 0.9)
    with pytest.raises(ConfigError, match=r"tiny: a checkpoint takes about .* free space, or set run\.root to"):
        run(tiny_config)
    assert not (tiny_config.parent / "runs" / "tiny").exists()


def test_the_folder_need_not_exist_and_a_file_system_that_counts_nothing_is_not_judged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert free_bytes(tmp_path / "runs" / "new") is not None
    monkeypatch.setattr(shutil, "disk_usage", lambda _: Disk(0, 0, 0))
    assert free_bytes(tmp_path) is None
