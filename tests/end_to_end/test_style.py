"""SPADE's generator with a style encoder, or with noise channels: trained, and translated with what is drawn or chosen.

Styles are exported too.
"""

from pathlib import Path

import numpy as np
import pytest
import torch

from data.batch import DataError
from data.files.image_files import read_rgb
from tests.conftest import save_image, write_tiny_config
from tests.runs import STYLE, program_main, run, translate, untrained_run
from utils.errors import ConfigError

LIVELY = [*STYLE, "init.distribution=kaiming", "train.max_steps=2"]


@pytest.fixture(scope="module")
def styled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The finished run of LIVELY, with the checkpoints of both steps; only to be read."""
    config = write_tiny_config(tmp_path_factory.mktemp("styled"))
    run(config, *LIVELY, "checkpoint.every_steps=1")
    return config.parent / "runs" / "tiny"


def pictures(folder: Path) -> list[torch.Tensor]:
    found = [read_rgb(path).int() for path in sorted(folder.glob("facade_*.png"))]
    assert len(found) == 3
    return found


def photo(path: Path, size: tuple[int, int] = (40, 60), seed: int = 0) -> str:
    rng = np.random.default_rng(seed)
    save_image(path, rng.integers(0, 256, (*size, 3), dtype=np.uint8) // (1 + 3 * seed))
    return str(path)


def test_the_seed_or_an_image_decides(styled: Path, tmp_path: Path) -> None:
    arguments = ["--checkpoint", str(styled), "--opt-level", "O0", "--output"]
    bright, dark = photo(tmp_path / "bright.png"), photo(tmp_path / "dark.png", seed=1)
    ways = {
        "zero": [],
        "one": ["--seed", "1", "--batch-size", "3"],
        "bright": ["--style", bright],
        "dark": ["--style", dark, "--batch-size", "2"],
    }
    made = {}
    for name, options in ways.items():
        translate(*arguments, str(tmp_path / name), *options)
        made[name] = pictures(tmp_path / name)
    for number in range(3):
        image = {name: images[number] for name, images in made.items()}
        for first, second in (("zero", "one"), ("zero", "dark"), ("bright", "dark")):
            assert (image[first] - image[second]).abs().max() > 1, (first, second)


def test_a_style_that_cannot_be_used_is_refused(tiny_run: Path, styled: Path, tmp_path: Path) -> None:
    without = ["--checkpoint", str(tiny_run), "--output", str(tmp_path / "out")]
    with pytest.raises(ConfigError, match=r"was trained without a style \(style.channels=0\)\. Remove the option"):
        translate(*without, "--style", photo(tmp_path / "photo.png"))
    arguments = ["--checkpoint", str(styled), "--output", str(tmp_path / "out")]
    with pytest.raises(DataError, match=r"^--style: .*none\.png: no such file"):
        translate(*arguments, "--style", str(tmp_path / "none.png"))
    (tmp_path / "text.png").write_text("text")
    with pytest.raises(DataError, match=r"^--style: .*text\.png: cannot be read as an image"):
        translate(*arguments, "--style", str(tmp_path / "text.png"))
    assert not (tmp_path / "out").exists()


def test_exported_weights_hold_the_encoder(tiny_config: Path, tmp_path: Path) -> None:
    folder, style = (
        untrained_run(tiny_config, *LIVELY, "init.distribution=kaiming:0.3"),
        photo(tmp_path / "style.png", seed=1),
    )
    labels = np.arange(32 * 32).reshape(32, 32) % 12
    save_image(tmp_path / "in" / "a.png", labels.astype(np.uint8))
    save_image(tmp_path / "instances" / "a.png", np.zeros((32, 32), np.uint16))
    inputs = ["--input", str(tmp_path / "in"), "--instances", str(tmp_path / "instances"), "--style", style]

    def translated(file: Path, name: str) -> torch.Tensor:
        translate("--checkpoint", str(file), *inputs, "--opt-level", "O0", "--output", str(tmp_path / name))
        return read_rgb(tmp_path / name / "a.png").int()

    wanted, export = translated(folder, "run"), program_main("tools.export")
    file = tmp_path / "a.safetensors"
    arguments = ["--checkpoint", str(folder), "--format", "safetensors", "--output", str(file)]
    export(arguments)
    found = translated(file, "file")
    with pytest.raises(SystemExit):
        export([*arguments, "--existing", "replace", "--style", style])
    assert (found - wanted).abs().max() <= 1
