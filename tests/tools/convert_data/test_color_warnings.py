"""Classes that may not be those that were drawn are warned about."""

from pathlib import Path

import numpy as np
import pytest
import torch

from tests.conftest import save_image
from tests.reliability.command_line import CommandLine
from tools.convert_data import __main__ as convert_data
from tools.convert_data.colors import ColorCounts, color_warnings, count_all, count_colors
from utils.label_colors import LabelColors

BLACK_AND_BLUE = LabelColors("test", ("sky", "sea"), ((0, 0, 0), (0, 0, 200)))
REMEDY = "name it with --colors FILE if it is a class"


def drawn(*rows: tuple[slice, list[int]]) -> ColorCounts:
    """Count the colours of a map of 100x100, blue in the lower half, with rows of other colours."""
    picture = np.zeros((100, 100, 3), np.uint8)
    picture[50:] = [0, 0, 200]
    for where, color in rows:
        picture[where] = color
    return count_colors(torch.from_numpy(picture).permute(2, 0, 1))


@pytest.mark.parametrize(
    ("rows", "expected"),
    [
        ([], []),
        ([(slice(2), [0, 9, 0])], []),  # a line of a near colour
        ([(slice(2), [255, 0, 0])], ["1 colour far from all classes merged: [255, 0, 0] (2.00%) into sky [0, 0, 0]"]),
        ([(slice(5), [0, 9, 0])], ["1 colour of areas merged, being near: [0, 9, 0] (5.00%) into sky [0, 0, 0]"]),
        (
            [(slice(k, k + 2), [0, 10 + k, 0]) for k in range(0, 20, 2)],
            ["20% of the pixels have a colour that is not that of a class"],
        ),
    ],
)
def test_colours_that_may_be_classes_are_named(rows: list[tuple[slice, list[int]]], expected: list[str]) -> None:
    lines = color_warnings(drawn(*rows), BLACK_AND_BLUE, is_jpeg=False)
    assert lines == [f"{line}; {REMEDY}" for line in expected]


def test_shades_that_jpeg_makes_of_areas_are_no_warning() -> None:
    counts = drawn((slice(20), [1, 2, 0]))
    assert color_warnings(counts, BLACK_AND_BLUE, is_jpeg=True) == []
    assert len(color_warnings(counts, BLACK_AND_BLUE, is_jpeg=False)) == 2


def test_the_shades_of_a_gradient_are_named() -> None:
    shades = tuple((shade, shade, shade) for shade in range(0, 256, 4))
    colors = LabelColors("test", tuple(map(str, range(64))), shades)
    (line,) = color_warnings(drawn((slice(50, None), [0, 0, 0])), colors, is_jpeg=False)
    assert line.startswith("64 of 64 classes are within 8 of another, as the shades of a gradient are")


def test_transparent_pixels_are_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    picture = np.zeros((32, 32, 4), np.uint8)
    picture[16:] = [0, 0, 200, 255]
    save_image(tmp_path / "maps" / "a.png", picture)
    picture[..., 3] = 255
    save_image(tmp_path / "maps" / "opaque.png", picture)
    arguments = ("colors-to-ids", str(tmp_path / "maps"), str(tmp_path / "ids"))
    code, out, _ = CommandLine(monkeypatch, capsys).run(convert_data.main, *arguments)
    assert code == 0
    assert (
        f"warning: 1 map with transparent pixels, such as {tmp_path / 'maps' / 'a.png'}: they get the class of" in out
    )
    counts, _ = count_all([tmp_path / "maps" / "opaque.png"])
    assert counts.transparent == []
