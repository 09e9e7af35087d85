"""Pairs made of photographs: the photograph as the target, and a source derived from it."""

import hashlib
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Literal

from torch import Tensor
from torchvision.transforms.v2 import InterpolationMode
from torchvision.transforms.v2 import functional as F

from data.batch import DataError
from data.image_files import count_other_files, find_images, read_rgb
from tools.convert_data.conversion import Conversion
from tools.convert_data.edges import draw_edges
from utils.log import logger

Source = Literal["edges", "grey", "low_resolution"]

SPLITS = ("train", "val", "test")


@dataclass(frozen=True)
class PhotoPairs:
    """How a photograph becomes a pair.

    size: largest length of its longer side, in pixels.
    sigma: of the Gaussian before the detection of edges, in pixels; for edges.
    factor: by which height and width are reduced; for low_resolution.
    """

    source: Source
    size: int
    sigma: float
    factor: int

    def __call__(self, path: Path) -> tuple[Tensor, Tensor]:
        """Return source and photograph, (3, H, W) uint8 each.

        Raises:
            DataError: the file cannot be read as an image.
        """
        photo = read_rgb(path)
        height, width = photo.shape[-2:]
        if (longer := max(height, width)) > self.size:
            photo = _resized(photo, max(1, height * self.size // longer), max(1, width * self.size // longer))
        return self._source_of(photo), photo

    def _source_of(self, photo: Tensor) -> Tensor:
        height, width = photo.shape[-2:]
        match self.source:
            case "edges":
                return draw_edges(photo, self.sigma)
            case "grey":
                return F.rgb_to_grayscale(photo, num_output_channels=3)
            case "low_resolution":
                small = _resized(photo, max(1, height // self.factor), max(1, width // self.factor))
                return _resized(small, height, width)


def from_photos(
    origin: Path,
    target: Path,
    suffix: str,
    problems: list[str],
    *,
    pairs: PhotoPairs,
    shares: dict[str, float],
) -> list[Conversion]:
    """Return a pair of each photograph below `origin`, in the split drawn by its name.

    Raises:
        DataError: there is no photograph, or `target` has one in another split.
    """
    photos = find_images(origin, problems)
    if not photos:
        raise DataError(*problems)
    if others := count_other_files([origin]):
        logger.info("files of other formats: %s", others)
    conversions = []
    present = {split: find_images(target / f"{split}_B", []) for split in SPLITS}
    for name, path in photos.items():
        split = split_of(name, shares)
        if elsewhere := [other for other in SPLITS if other != split and name in present[other]]:
            raise DataError(
                f"{present[elsewhere[0]][name]}: now belongs to {split}; use the same --val and --test as before, or "
                "another TO"
            )
        # lines stay sharp in a PNG, and are small there
        a = target / f"{split}_A" / f"{name}{'.png' if pairs.source == 'edges' else suffix}"
        b = target / f"{split}_B" / f"{name}{suffix}"
        conversions.append(Conversion(name, split, (a, b), partial(pairs, path)))
    return conversions


def split_of(name: str, shares: dict[str, float]) -> str:
    """Return the split drawn by the hash of a name, which does not depend on other names.

    shares: of val and test, in [0, 1]; train has the rest.
    """
    position = int.from_bytes(hashlib.sha256(name.encode()).digest()[:8]) / 2**64
    for split, share in shares.items():
        if position < share:
            return split
        position -= share
    return "train"


def _resized(image: Tensor, height: int, width: int) -> Tensor:
    return F.resize(image, [height, width], interpolation=InterpolationMode.BICUBIC, antialias=True)
