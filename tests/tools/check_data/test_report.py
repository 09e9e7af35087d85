from pathlib import Path

import pytest

from data.checks.checking import Checked
from data.paired_folders import SideBySide
from tests.conftest import save_image
from tests.images import noise_image
from tools.check_data.report import CheckedSide, describe_ids


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
    ],
)
def test_ids_in_a_line(ids: set[int], ignore_id: int | None, line: str) -> None:
    assert describe_ids(ids, 3, ignore_id) == line
