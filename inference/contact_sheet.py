"""Contact sheet: one picture that shows the first sources, translations and targets side by side."""

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
MARGIN = 16  # pixels between samples, and at the edges of the sheet
LINE = 20  # height of a line of text in pixels
FONT_SIZE = 13  # pixels
LEAST_CELL = 80  # minimum width of a column in pixels, so that its heading fits


def thumbnail(image: Tensor, width: int) -> Tensor:
    """Return a (3, H, W) uint8 image, scaled down if it is wider than `width` pixels."""
    if image.shape[2] <= width:
        return image
    return resize(image, max(1, image.shape[1] * width // image.shape[2]), width)


def contact_sheet(samples: Mapping[str, Mapping[str, Tensor]], n_images: int) -> Tensor:
    """Return a (3, H, W) uint8 picture of samples with their names, at most about SHEET_WIDTH pixels wide.

    samples: (3, h, w) uint8 images by sample name and column heading.
    n_images: Number of all translated images, for the title of the sheet.
    """
    heads = list(dict.fromkeys(head for sample in samples.values() for head in sample))
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
    """Write one line of text. Cut its beginning if it is wider than `width` pixels, because names differ at the end."""
    shown = line = _drawable(text[-SHEET_WIDTH:])  # every letter is at least one pixel wide
    while len(line) > 1 and draw.textlength(shown) > width:
        line = line[1:]
        shown = f"...{line}"
    draw.text((left, top), shown, fill=color)


def _drawable(text: str) -> str:
    """Return the text in ASCII for Pillow's font: without accents, and with "?" for all other characters."""
    letters = (c for c in unicodedata.normalize("NFKD", printable(text)) if not unicodedata.combining(c))
    return "".join(letters).encode("ascii", "replace").decode()
