"""The report about a data set, and the sheet of its samples."""

from pathlib import Path

import numpy as np
import pytest
import torch

from configs.load import load_config
from configs.splits import open_split
from data.batch import DataError
from data.checks import Checked
from data.files.image_files import read_rgb
from data.map_reader import GREY_LEVELS, checked_classes
from data.paired_folders import SideBySide
from tests.conftest import save_image
from tests.images import noise_image
from tools.check_data import __main__ as check_data
from tools.check_data.report import CheckedSide, describe_ids, write_sheet


def problems_of(folder: Path, problems: list[str]) -> list[str]:
    """The problems that are listed for twelve samples."""
    for number in range(12):
        save_image(folder / f"{number:02}.png", noise_image(0, 8, 8).permute(1, 2, 0).numpy())
    layout = SideBySide(folder=folder, a_to_b=True)
    results = [Checked(index, (problem,) if problem else ()) for index, problem in enumerate(problems)]
    return list(CheckedSide("train", "", layout, results).problems())


def missing(number: int) -> str:
    return f"/data/train_A/{number:02}.png: pixel (row {number}, column 3) holds id 9"


def test_a_problem_of_most_samples_is_listed_once_with_their_number(tmp_path: Path) -> None:
    empty = "/data/train_A/07.png: is empty"
    wrong = [*map(missing, range(7)), empty]
    assert problems_of(tmp_path, wrong) == [f"{missing(0)} (in 7 of 12 samples)", empty]
    assert problems_of(tmp_path, wrong[1:7]) == wrong[1:7]  # not most


def test_images_that_are_too_small_are_one_problem(tmp_path: Path) -> None:
    small = [f"sample {number:02} of /data is {number}x9, too small for a crop of 32x32: lower it" for number in (1, 2)]
    assert problems_of(tmp_path, ["", *small]) == [f"{small[0]} (in 2 of 12 samples)"]


@pytest.mark.parametrize(
    ("ids", "ignore_id", "line"),
    [
        ({0, 1, 5}, None, "ids 0 to 1, 5: data.n_classes=6"),
        ({*range(256)}, None, "ids 0 to 255: data.n_classes=256"),
        ({3, 7, 9}, 9, "ids 3, 7, 9: data.n_classes=8 data.ignore_id=9"),
        ({*range(0, 40, 2)}, None, "ids 0, 2, 4, 6, 8, 10, 12, 14 and 12 more: data.n_classes=39"),
        ({1, 2}, None, "ids 1 to 2, of data.n_classes=3"),
        ({0, 255}, None, f"ids 0, 255: {GREY_LEVELS}"),
    ],
)
def test_ids_in_a_line(ids: set[int], ignore_id: int | None, line: str) -> None:
    assert describe_ids(ids, 3, ignore_id) == line


def sheet_of(folder: Path, *arguments: object) -> torch.Tensor:
    path = folder / "sheet.png"
    check_data.main([*map(str, arguments), "--sheet", str(path)])
    return read_rgb(path)


def test_samples_are_shown_as_stored_and_as_augmented(tiny_config: Path, tmp_path: Path) -> None:
    sheets = []
    for rotation in ("0,0", "30,30"):
        settings = ["data.synthetic_size=[128,128]", "data.flip=false", f"data.rotation_degrees=[{rotation}]"]
        config = load_config(tiny_config, settings)
        assert write_sheet(config, open_split(config, "train", needs_targets=True), 1, tmp_path / "sheet.png")
        sheets.append(read_rgb(tmp_path / "sheet.png"))
    plain, augmented = sheets
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


def test_ids_of_a_black_and_white_mask_are_taken_for_grey_levels() -> None:
    ids = torch.tensor([[[0, 255]]], dtype=torch.int32)
    with pytest.raises(DataError, match=r"like grey levels.* or set data\.ignore_id=255"):
        checked_classes(ids, "mask", n_classes=2, ignore_id=None)
