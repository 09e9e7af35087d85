from pathlib import Path
from typing import Literal

import pytest
import torch
from torchvision.transforms.v2 import InterpolationMode
from torchvision.transforms.v2.functional import resize as resize_as_torchvision

from utils.errors import ConfigError
from utils.label_colors import read_label_colors
from utils.pictures import GAP, colorize, label_colors, picture, picture_table, resize


def test_known_data_sets_have_their_classes() -> None:
    assert read_label_colors("cityscapes").names[13] == "car"
    for name, n_classes, n_ignored in (("cityscapes", 19, 10), ("cmp_facades", 12, 0)):
        known = read_label_colors(name)
        assert (known.n_classes, len(known.colors.unique(dim=0))) == (n_classes, n_classes + n_ignored)


def test_colours_are_read_from_a_file(tmp_path: Path) -> None:
    file = tmp_path / "colors.yaml"
    file.write_text("sky: [70, 130, 180]\nno: [0, 0, 255]\nignored: [[0, 0, 0], [1, 1, 1]]\n")
    colors = read_label_colors(str(file))
    assert colors.names == ("sky", "no")
    assert colors.colors.tolist() == [[70, 130, 180], [0, 0, 255], [0, 0, 0], [1, 1, 1]]
    picture = torch.tensor([[70, 130, 180], [0, 9, 250], [0, 0, 0], [1, 1, 1]], dtype=torch.uint8).T[..., None]
    assert colors.classes_of(picture, may_ignore=True).flatten().tolist() == [0, 1, 2, 2]
    assert set(colors.classes_of(picture, may_ignore=False).flatten().tolist()) == {0, 1}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[", "not valid YAML"),
        ("5", "holds no classes"),
        ("a: [1, 2, 3]", "has 1 classes, expected 2"),
        ("a: [1, 2, 3]\nb: [1, 2]", r"b is \[1, 2\], expected \[R, G, B\]"),
        ("a: [1, 2, 3]\nb: [1, 2, 3]", r"\[1, 2, 3\] occurs twice"),
        ("!!python/object/apply:os.getcwd []", "is not supported"),
        ("a: [1, 2, 3]\nb: [3, 2, 3]\nignored: [0, 0, 0]", r"ignored is 0, expected \[R, G, B\]"),
    ],
)
def test_a_file_of_something_else_is_refused(tmp_path: Path, text: str, message: str) -> None:
    file = tmp_path / "colors.yaml"
    file.write_text(text)
    with pytest.raises(ConfigError, match=message):
        read_label_colors(str(file))


def test_colours_of_voc_and_cityscapes() -> None:
    voc = label_colors(21).tolist()
    assert voc[:4] == [[0, 0, 0], [128, 0, 0], [0, 128, 0], [128, 128, 0]]
    assert voc[15] == [192, 128, 128]  # person
    assert label_colors(35)[7].tolist() == [128, 64, 128]  # road
    assert len({tuple(color) for color in label_colors(256).tolist()}) == 256


def test_labels_are_shown_in_their_colours_and_ignored_pixels_in_black() -> None:
    colors = torch.tensor([[1, 2, 3], [4, 5, 6]], dtype=torch.uint8)
    shown = colorize(torch.tensor([[[0, 1, 2]]], dtype=torch.uint8), colors)
    assert shown[:, 0].T.tolist() == [[1, 2, 3], [4, 5, 6], [0, 0, 0]]


def test_a_table_holds_each_image_at_its_place() -> None:
    rows = [[torch.full((3, 4, 6), 10 * row + column, dtype=torch.uint8) for column in range(3)] for row in range(2)]
    table = picture_table(rows)
    assert table.shape == (3, 2 * 4 + GAP, 3 * 6 + 2 * GAP)
    for row in range(2):
        for column in range(3):
            cell = table[:, row * (4 + GAP) :, column * (6 + GAP) :][:, :4, :6]
            assert cell.unique().tolist() == [10 * row + column]


@pytest.mark.parametrize(
    ("mode", "dtype", "size", "channels_last"),
    [("bilinear", torch.uint8, (7, 40), False), ("bicubic", torch.uint8, (64, 90), True)],
)
def test_it_resizes_as_torchvision_does(
    mode: Literal["bilinear", "bicubic"], dtype: torch.dtype, size: tuple[int, int], channels_last: bool
) -> None:
    image = torch.randint(256, (33, 41, 3), dtype=torch.uint8).to(dtype).permute(2, 0, 1)
    image = image if channels_last else image.contiguous()
    wanted = resize_as_torchvision(image, [*size], interpolation=InterpolationMode(mode), antialias=True)
    found = resize(image, *size, mode)
    assert torch.equal(found, wanted)
    assert found.stride() == wanted.stride()


def test_a_picture_shows_the_first_three_channels_or_the_first() -> None:
    image = torch.rand(4, 8, 9) * 1000
    shown = picture(image)
    assert torch.equal(shown, picture(image[:3]))
    assert torch.equal(picture(image[:2]), shown[:1].expand(3, -1, -1))
