"""A contact sheet: sources, translations and targets of the first images in one picture, with their names."""

import unicodedata
from collections.abc import Mapping

import numpy as np
import torch
from PIL import Image, ImageDraw, ImageFont
from torch import Tensor

from utils.pictures import resize
from utils.text import counted, printable

SHEET_WIDTH = 1200  # pixels
GAP = 4  # pixels between the images of a sample
MARGIN = 16  # pixels between samples, and around all
LINE = 20  # pixels of height of a line of text
FONT_SIZE = 13  # pixels
LEAST_CELL = 80  # pixels of width, so that the head of a column fits


def thumbnail(image: Tensor, width: int) -> Tensor:
    """Return a (3, H, W) uint8 image, scaled down to a width of at most `width` pixels."""
    if image.shape[2] <= width:
        return image
    return resize(image, max(1, image.shape[1] * width // image.shape[2]), width)


def contact_sheet(samples: Mapping[str, Mapping[str, Tensor]], n_images: int) -> Tensor:
    """Return samples as one (3, H, W) uint8 image of at most about SHEET_WIDTH pixels: a title, heads and names.

    samples: (3, h, w) uint8 images by name of the sample and head of the column.
    n_images: Number of all images; the samples are the first of them.
    """
    heads = list(dict.fromkeys(kind for of_sample in samples.values() for kind in of_sample))
    widest = max((SHEET_WIDTH - 2 * MARGIN) // len(heads) - GAP, 1)
    names = list(samples)
    images = [{kind: thumbnail(image, widest) for kind, image in shown.items()} for shown in samples.values()]
    cell = max(LEAST_CELL, *(image.shape[2] for row in images for image in row.values())) + GAP
    width = cell * len(heads) - GAP + MARGIN
    per_line = min(max((SHEET_WIDTH - MARGIN) // width, 1), len(samples))
    lines = [range(start, min(start + per_line, len(samples))) for start in range(0, len(samples), per_line)]
    heights = [LINE + max(image.shape[1] for index in line for image in images[index].values()) for line in lines]
    tops = [2 * LINE + MARGIN + sum(heights[:number]) + MARGIN * number for number in range(len(lines))]
    sheet = Image.new("RGB", (MARGIN + per_line * width, tops[-1] + heights[-1] + MARGIN), "white")
    draw = ImageDraw.Draw(sheet)
    draw.font = ImageFont.load_default(FONT_SIZE)
    of = f"{len(samples)} of " if len(samples) < n_images else ""
    _write(draw, MARGIN, MARGIN // 2, of + counted(n_images, "image"), sheet.width - 2 * MARGIN)
    for column in range(per_line):
        for number, head in enumerate(heads):
            _write(draw, MARGIN + column * width + number * cell, MARGIN // 2 + LINE, head, cell, "grey")
    for line, top in zip(lines, tops, strict=True):
        for column, index in enumerate(line):
            left = MARGIN + column * width
            _write(draw, left, top, names[index], width - MARGIN)
            for kind, image in images[index].items():
                picture = Image.fromarray(image.permute(1, 2, 0).contiguous().numpy())
                sheet.paste(picture, (left + heads.index(kind) * cell, top + LINE))
    return torch.from_numpy(np.array(sheet)).permute(2, 0, 1)


def _write(draw: ImageDraw.ImageDraw, left: int, top: int, text: str, width: int, color: str = "black") -> None:
    """Write one line of text, or its end, where names differ, if it is wider than `width` pixels."""
    shown = line = _drawable(text[-SHEET_WIDTH:])  # no letter is narrower than a pixel
    while len(line) > 1 and draw.textlength(shown) > width:
        line = line[1:]
        shown = f"...{line}"
    draw.text((left, top), shown, fill=color)


def _drawable(text: str) -> str:
    """Return the text in ASCII, because Pillow's font has no other letters: without accents, or as "?"."""
    letters = (c for c in unicodedata.normalize("NFKD", printable(text)) if not unicodedata.combining(c))
    return "".join(letters).encode("ascii", "replace").decode()
