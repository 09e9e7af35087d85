from pathlib import Path

import numpy as np
import pytest
import torch

from data.files.image_files import read_rgb
from tests.conftest import save_image
from tools.check_data import __main__ as check_data


def sheet_of(folder: Path, *arguments: object) -> torch.Tensor:
    path = folder / "sheet.png"
    check_data.main([*map(str, arguments), "--sheet", str(path)])
    return read_rgb(path)


def test_samples_are_shown_as_stored_and_as_augmented(tiny_config: Path, tmp_path: Path) -> None:
    settings = ["data.synthetic_size=[128,128]", "data.synthetic_samples=[1,1,1]", "data.flip=false", "--show", 1]
    plain = sheet_of(tmp_path, "--config", tiny_config, *settings)
    augmented = sheet_of(tmp_path, "--config", tiny_config, *settings, "data.rotation_degrees=[30,30]")
    assert plain.shape == augmented.shape
    differs = (plain != augmented).any(0).any(0).nonzero()
    cells = plain.shape[2] // 4
    assert differs.min() >= 2 * cells - 8  # the right half: the augmented source and target
    left, right = plain[:, -144:-16, 16:280], plain[:, -144:-16, 280:544]
    assert torch.equal(left, right)  # without augmentation they are as stored


def test_what_cannot_be_used_is_left_out(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rgb = np.full((32, 64, 3), 99, dtype=np.uint8)
    for name in ("a", "b"):
        save_image(tmp_path / "train_A" / f"{name}.png", rgb)
        save_image(tmp_path / "train_B" / f"{name}.png", rgb)
    both = sheet_of(tmp_path, tmp_path, "--show", 2).shape
    assert f"sheet of samples of train: {tmp_path / 'sheet.png'}\nno problem in train\n" in capsys.readouterr().out
    (tmp_path / "train_B" / "a.png").write_bytes(b"")
    with pytest.raises(SystemExit):
        sheet_of(tmp_path, tmp_path, "--show", 2)
    assert read_rgb(tmp_path / "sheet.png").shape < both
