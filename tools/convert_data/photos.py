"""Pairs made of photographs: the photograph as the target, and a source made from it."""

import hashlib
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Literal

import torch
from torch import Tensor
from torchvision.transforms.v2.functional import center_crop, rgb_to_grayscale

from data.batch import DataError
from data.files.image_files import find_image_paths, read_rgb
from data.folder import SPLITS
from data.preprocessing import resize_image
from tools.convert_data.conversion import Conversion
from tools.convert_data.edges import draw_edges

Source = Literal["edges", "grey", "noisy", "reduced"]

SUFFIXES = {"png": ".png", "jpeg": ".jpg"}


@dataclass(frozen=True)
class PhotoPairs:
    """Settings that make a pair of a photograph.

    size: Largest length of the longer side, in pixels.
    sigma: Standard deviation of the blur before edges are detected, in pixels, or of the noise, in levels of 255.
    factor: Reduction of height and width for reduced sources. Photographs are cropped to multiples of it.
    suffix: Suffix of the files, except lines and noise, which JPEG would change.
    """

    source: Source
    size: int
    sigma: float
    factor: int
    suffix: str

    def check_present(self, folder: Path, splits: Mapping[str, str]) -> None:
        """Raise DataError if a folder has a photograph in another split than `splits`, by name."""
        for split in SPLITS:
            for name, path in find_image_paths(folder / f"{split}_B", []).items():
                if splits.get(name, split) != split:
                    remedy = "use the same --val and --test as before, or another TO"
                    raise DataError(f"{path}: now belongs to {splits[name]}; {remedy}")

    def conversion(self, photo: Path, name: str, folder: Path, split: str) -> Conversion:
        """Return the conversion of a photograph to a pair below the folder of a data set."""
        suffix = ".png" if self.source in ("edges", "noisy") else self.suffix
        files = folder / f"{split}_A/{name}{suffix}", folder / f"{split}_B/{name}{self.suffix}"
        return Conversion(split, files, partial(self, photo))

    def __call__(self, path: Path) -> tuple[Tensor, Tensor]:
        """Return the source and the photograph, (3, H, W) uint8 each; raise DataError if it cannot be used."""
        photo = read_rgb(path)
        height, width = photo.shape[-2:]
        if self.source == "reduced" and min(height, width) < self.factor:
            raise DataError(f"{path}: is {width}x{height}, too small to be reduced by {self.factor}")
        if (longer := max(height, width)) > self.size:
            photo = resize_image(photo, max(1, height * self.size // longer), max(1, width * self.size // longer))
        if self.source == "reduced":  # rounded sides would shift the pixels of the two images against each other
            photo = center_crop(photo, [max(side // self.factor, 1) * self.factor for side in photo.shape[-2:]])
        return self._source_of(photo), photo

    def _source_of(self, photo: Tensor) -> Tensor:
        height, width = photo.shape[-2:]
        match self.source:
            case "edges":
                return draw_edges(photo, self.sigma)
            case "grey":
                return rgb_to_grayscale(photo, num_output_channels=3)
            case "noisy":
                seed = zlib.crc32(photo.numpy().tobytes())  # the same for the same photograph
                noise = torch.randn(photo.shape, generator=torch.Generator().manual_seed(seed)) * self.sigma
                return (photo + noise).round_().clamp_(0, 255).to(torch.uint8)
            case "reduced":
                return resize_image(photo, height // self.factor, width // self.factor)


def split_of(name: str, shares: dict[str, float]) -> str:
    """Return the split that the hash of a name draws, independent of other names.

    shares: Shares of val and test, in [0, 1]. The rest is train.
    """
    position = int.from_bytes(hashlib.sha256(name.encode()).digest()[:8]) / 2**64
    for split, share in shares.items():
        if position < share:
            return split
        position -= share
    return "train"
