"""Faults that only check_data finds, because it compares samples or counts their values."""

from pathlib import Path

import numpy as np
import pytest

from data.facades.dataset import SyntheticFacades
from tests.conftest import save_image
from tools.check_data import __main__ as check_data

FACADES = SyntheticFacades(split="train", seed=0, n_samples=6, height=128, width=128)


def photo(index: int) -> np.ndarray:
    return FACADES.read(index).maps["target"].permute(1, 2, 0).numpy()


def lines_of(root: Path, capsys: pytest.CaptureFixture[str], *settings: str) -> str:
    with pytest.raises(SystemExit) as stopped:
        check_data.main([str(root), *settings])
    assert stopped.value.code == 2
    return capsys.readouterr().out


def test_a_shifted_target_and_another_type_are_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for index in range(5):
        grey = photo(index)[..., 0].astype(np.uint16) * 257
        save_image(tmp_path / "train_A" / f"p{index}.png", 65535 - grey)
        save_image(tmp_path / "train_B" / f"p{index}.png", np.roll(grey, (7, -9), (0, 1)) if index == 3 else grey)
    save_image(tmp_path / "train_B" / "p2.png", photo(2)[..., 0])
    (tmp_path / "train_B" / "p4.png").write_bytes(b"")
    ranges = [f"data.{side}_{value}" for side in ("source", "target") for value in ("channels=1", "range=[0,65535]")]
    output = lines_of(tmp_path, capsys, *ranges)
    assert "train_B/p4.png: cannot be read as an image: it is empty" in output
    assert "train: images of several types. " in output
    assert "uint8 target, as p2" in output
    shift = "warning: train: targets seem to be shifted in 1 of 4 pairs: p3 by 9 pixels to the left and 7 pixels down"
    assert shift in output


def test_masks_of_grey_levels(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for index in range(6):
        labels = FACADES.read(index).source[0].numpy()
        save_image(tmp_path / "train_label" / f"{index}.png", (labels > index % 2).astype(np.uint8) * 255)
        save_image(tmp_path / "train_img" / f"{index}.png", photo(index))
    output = lines_of(tmp_path, capsys, "--n-classes", "2")
    assert "look like grey levels, " in output
    assert "(in 6 of 6 samples)" in output
    assert "ids 0, 255: these look like grey levels" in output
    colors = tmp_path / "colors.yaml"
    colors.write_text("background: [0, 0, 0]\nobject: [255, 255, 255]\n")  # the message advises this
    check_data.main([str(tmp_path), f"data.label_colors={colors}"])
    assert capsys.readouterr().out.splitlines()[-1] == "no problem in train"
