"""A contact sheet: sources, translations and targets of the first images in one picture."""

from collections.abc import Sequence

from torch import Tensor
from torchvision.transforms.v2.functional import resize

from utils.image_grid import picture_table

SHEET_WIDTH = 1200  # pixels


def thumbnail(image: Tensor, width: int) -> Tensor:
    """Return a (3, H, W) uint8 image, scaled down to `width` pixels where it is wider."""
    if image.shape[2] <= width:
        return image
    return resize(image, [max(1, image.shape[1] * width // image.shape[2]), width], antialias=True)


def contact_sheet(rows: Sequence[Sequence[Tensor]]) -> Tensor:
    """Return rows of (3, h, w) uint8 images as one (3, H, W) uint8 image, at most SHEET_WIDTH pixels wide."""
    per_row = max(len(row) for row in rows)
    widest = max(SHEET_WIDTH // per_row, 1)
    thumbnails = [[thumbnail(image, widest) for image in row] for row in rows]
    row_width = max(sum(image.shape[2] for image in row) for row in thumbnails)
    n_side_by_side = max(SHEET_WIDTH // row_width, 1)
    groups = [thumbnails[start : start + n_side_by_side] for start in range(0, len(rows), n_side_by_side)]
    return picture_table([[image for row in group for image in row] for group in groups])
