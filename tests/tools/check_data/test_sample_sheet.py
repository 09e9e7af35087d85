from pathlib import Path

import numpy as np
import pytest
import torch

from data.files.image_files import read_rgb
from tests.conftest import save_image
from tools.check_data import __main__ as check_data

AUGMENT = ["data.augment.rotation_degrees=[30,30]"]


def sheet_of(folder: Path, *arguments: object) -> torch.Tensor:
    path = folder / "sheet.png"
    check_data.main([*map(str, arguments), "--sheet", str(path)])
    return read_rgb(path)


def test_samples_are_shown_as_stored_and_as_augmented(tiny_config: Path, tmp_path: Path) -> None:
    settings = ["data.synthetic.height=128", "data.synthetic.width=128", "data.flip=false"]
    plain = sheet_of(tmp_path, "--config", tiny_config, *settings, "--show", 1)
    augmented = sheet_of(tmp_path, "--config", tiny_config, *settings, "--show", 1, *AUGMENT)
    assert plain.shape == augmented.shape
    differs = (plain != augmented).any(0).any(0).nonzero()
    cells = plain.shape[2] // 4
    assert differs.min() >= 2 * cells - 8  # the right half: the augmented source and target
    left, right = plain[:, -144:-16, 16:280], plain[:, -144:-16, 280:544]
    assert torch.equal(left, right)  # without augmentation they are as stored


def test_more_samples_than_there_are_come_from_later_epochs(
    label_data_set: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    few = sheet_of(tmp_path, label_data_set, "--show", 3)
    many = sheet_of(tmp_path, label_data_set, "--show", 7, *AUGMENT)
    assert many.shape[1] > few.shape[1]
    out = capsys.readouterr().out
    assert f"sheet of samples of train: {tmp_path / 'sheet.png'}\nno problem in test, train\n" in out


def test_what_cannot_be_used_is_left_out(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rgb = np.full((32, 64, 3), 99, dtype=np.uint8)
    for name in ("a", "b"):
        save_image(tmp_path / "train_A" / f"{name}.png", rgb)
        save_image(tmp_path / "train_B" / f"{name}.png", rgb)
    (tmp_path / "train_B" / "a.png").write_bytes(b"")
    with pytest.raises(SystemExit):
        sheet_of(tmp_path, tmp_path, "--show", 2)
    one = read_rgb(tmp_path / "sheet.png").shape
    (tmp_path / "train_B" / "b.png").write_bytes(b"")
    with pytest.raises(SystemExit):
        check_data.main([str(tmp_path), "--show", "2"])
    assert "no sheet: train has no sample that can be used" in capsys.readouterr().out
    save_image(tmp_path / "train_B" / "a.png", rgb)
    save_image(tmp_path / "train_B" / "b.png", rgb)
    assert sheet_of(tmp_path, tmp_path, "--show", 2).shape > one
