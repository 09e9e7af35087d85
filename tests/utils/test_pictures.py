"""Pictures of label maps, and several pictures in one."""

import torch

from utils.pictures import GAP, colorize, label_colors, picture_table


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


def test_smaller_images_and_shorter_rows_are_filled_up_with_white() -> None:
    table = picture_table([[torch.zeros(3, 4, 4, dtype=torch.uint8)] * 2, [torch.zeros(3, 2, 4, dtype=torch.uint8)]])
    assert table[:, 4 + GAP + 2 :, :4].unique().tolist() == [255]
    assert table[:, 4 + GAP :, 4 + GAP :].unique().tolist() == [255]
