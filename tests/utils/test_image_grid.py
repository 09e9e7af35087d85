import torch

from utils.image_grid import GAP, picture_table


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
