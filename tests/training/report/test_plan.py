"""The lines of the plan: samples that are held back."""

from pathlib import Path

import numpy as np

from configs.load import load_config
from configs.rules import unused_settings
from configs.splits import HELD_BACK, Splits
from data.paired_folders import SideBySide
from data.validation_split import Subset
from tests.conftest import save_image
from training.report.plan import describe_validation


def test_the_plan_warns_of_names_that_begin_alike_unless_groups_are_named(tiny_config: Path, tmp_path: Path) -> None:
    for name in ("p001_s1", "p001_s2", "p002_s1", "p003_s1"):
        save_image(tmp_path / f"{name}.png", np.zeros((4, 8, 3), np.uint8))
    layout = SideBySide(folder=tmp_path, a_to_b=True)
    config = load_config(tiny_config, ["train.validation_share=0.5"])
    leaking = Splits(Subset(layout, [0, 2]), Subset(layout, [1, 3]), HELD_BACK)
    _, warning = describe_validation(config, leaking, 2)
    assert "p001_s1 and p001_s2" in warning
    assert r"train.validation_group='p\d+_s'" in warning
    whole = Splits(Subset(layout, [0, 1]), Subset(layout, [2, 3]), HELD_BACK)
    assert describe_validation(config, whole, 2) == [
        "validation     2 of 2 training samples held back by train.validation_share=0.5"
    ]
    in_groups = load_config(tiny_config, ["train.validation_share=0.5", "train.validation_group=p[0-9]+"])
    assert "train.validation_group=p[0-9]+" not in unused_settings(in_groups)
    alone = load_config(tiny_config, ["train.validation_group=p[0-9]+"])
    assert "train.validation_group=p[0-9]+" in unused_settings(alone)
    (line,) = describe_validation(in_groups, whole, 2)
    assert line.endswith(", 2 of 3 groups of train.validation_group=p[0-9]+")
