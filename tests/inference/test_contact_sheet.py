"""The contact sheet holds whole images next to their names."""

import numpy as np
import pytest
import torch

from inference.contact_sheet import SHEET_WIDTH, contact_sheet

RED, BLUE = (torch.tensor([*color], dtype=torch.uint8)[:, None, None] for color in ((255, 0, 0), (0, 0, 255)))


def images(height: int, width: int) -> dict[str, torch.Tensor]:
    return {"source": RED.expand(3, height, width), "translated": BLUE.expand(3, height, width)}


@pytest.mark.parametrize("sizes", [[(30, 2000), (900, 20)], [(40, 70)] * 24])
def test_all_images_are_on_the_sheet_and_whole(sizes: list[tuple[int, int]]) -> None:
    sheet = contact_sheet({str(number): images(*size) for number, size in enumerate(sizes)}, n_images=len(sizes))
    assert sheet.shape[2] <= SHEET_WIDTH
    pixels = sheet.permute(1, 2, 0).numpy()
    red, blue = (int(np.all(pixels == color, axis=2).sum()) for color in ((255, 0, 0), (0, 0, 255)))
    assert red == blue > 0
    if sizes[0][1] < 100:
        assert red == sum(height * width for height, width in sizes)


def test_names_that_the_font_lacks_or_that_are_long_are_shown() -> None:
    shown = [contact_sheet({name: images(8, 8)}, n_images=1) for name in ("ü\n☃", r"u\n?", "folder/" * 20)]
    assert torch.equal(shown[0], shown[1])
    assert shown[2].shape[2] <= 2 * 100
