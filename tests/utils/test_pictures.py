"""Pictures of label maps, several pictures in one, and pictures at another size."""

from typing import Literal

import pytest
import torch
from torchvision.transforms.v2 import InterpolationMode
from torchvision.transforms.v2.functional import resize as resize_as_torchvision

from utils.pictures import GAP, colorize, label_colors, picture, picture_table, resize


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
    [
        ("bilinear", torch.uint8, (7, 40), False),
        ("bilinear", torch.float32, (33, 20), True),
        ("bicubic", torch.uint8, (64, 90), True),
        ("bicubic", torch.float32, (33, 41), False),
    ],
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
