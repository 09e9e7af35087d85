"""Generators with noise channels: pictures depend on the seed and the image's name, whole or in tiles."""

from pathlib import Path

import pytest
import torch

from data.files.image_files import read_rgb
from tests.runs import SPADE, checkpoint, run, translate, with_slow

NOISE = [*SPADE, "generator.noise_channels=4", "generator.init=kaiming", "train.max_steps=2"]


def pictures(folder: Path) -> list[torch.Tensor]:
    found = [read_rgb(path) for path in sorted(folder.glob("facade_*.png"))]
    assert len(found) == 3
    return found


def test_the_seed_decides(tiny_config: Path, tmp_path: Path) -> None:
    run(tiny_config, *NOISE)
    arguments = ["--checkpoint", str(tiny_config.parent / "runs" / "tiny"), "--opt-level", "O0", "--output"]
    ways = {
        "zero": [],
        "again": ["--seed", "0", "--batch-size", "3"],
        "one": ["--seed", "1"],
        "tiled": ["--seed", "1", "--tile", "16"],
    }
    for name, options in ways.items():
        translate(*arguments, str(tmp_path / name), *options)
    zero, again, one, tiled = (pictures(tmp_path / name) for name in ways)
    for number in range(3):
        assert (zero[number].int() - again[number].int()).abs().max() <= 1
        assert (zero[number].int() - one[number].int()).abs().max() > 1
        assert (tiled[number].int() - one[number].int()).abs().max() <= 1


@pytest.mark.parametrize("level", with_slow(["O2"], ["O0"]))
def test_validation_draws_nothing_that_training_would(tiny_config: Path, level: str) -> None:
    precision = [f"amp.opt_level={level}", "amp.dtype=bfloat16"]
    run(tiny_config, *NOISE, *precision, "train.max_steps=4", "log.images_every_steps=1")
    run(tiny_config, *NOISE, *precision, "train.max_steps=4", "log.images_every_steps=4", "run.name=seldom")
    often, seldom = (checkpoint(tiny_config, 4, name)["networks"]["generator"] for name in ("tiny", "seldom"))
    for name, weight in often.items():
        assert torch.equal(weight, seldom[name]), name
