import torch

from utils.palette import colorize, label_colors


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
