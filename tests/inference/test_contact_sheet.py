"""The contact sheet has heads, names and the number of images."""

import re

import numpy as np
import pytest
import torch
from PIL import ImageDraw

from inference.contact_sheet import SHEET_WIDTH, contact_sheet

RED, BLUE = (torch.tensor([*color], dtype=torch.uint8)[:, None, None] for color in ((255, 0, 0), (0, 0, 255)))


def images(height: int, width: int) -> dict[str, torch.Tensor]:
    return {"source": RED.expand(3, height, width), "translated": BLUE.expand(3, height, width)}


@pytest.fixture
def written(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The texts on the sheets of a test."""
    texts: list[str] = []
    draw = ImageDraw.ImageDraw.text

    def text(self: ImageDraw.ImageDraw, place: tuple[float, float], text: str, **options: object) -> None:
        texts.append(text)
        draw(self, place, text, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(ImageDraw.ImageDraw, "text", text)
    return texts


def test_title_heads_and_names_are_written(written: list[str]) -> None:
    contact_sheet({"a": images(8, 8), "b/c": images(8, 8)}, n_images=40)
    assert written == ["2 of 40 images", "source", "translated", "source", "translated", "a", "b/c"]
    for name, shown in (("ü\n☃", r"u\\n\?"), ("folder/" * 99 + "x_7", r"\.\.\.[folder/]+/folder/x_7")):
        sheet = contact_sheet({name: images(8, 8)}, n_images=1)
        assert re.fullmatch(shown, written[-1])
        assert sheet.shape[2] <= 2 * 100


@pytest.mark.parametrize("sizes", [[(30, 2000), (900, 20)], [(40, 70)] * 24])
def test_all_images_are_on_the_sheet_and_whole(sizes: list[tuple[int, int]]) -> None:
    sheet = contact_sheet({str(number): images(*size) for number, size in enumerate(sizes)}, n_images=len(sizes))
    assert sheet.shape[2] <= SHEET_WIDTH
    pixels = sheet.permute(1, 2, 0).numpy()
    red, blue = (int(np.all(pixels == color, axis=2).sum()) for color in ((255, 0, 0), (0, 0, 255)))
    assert red == blue > 0
    if sizes[0][1] < 100:
        assert red == sum(height * width for height, width in sizes)
