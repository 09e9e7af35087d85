"""Pairs made from photographs. The photograph is the target, and the source is computed from the photograph."""

import hashlib
import math
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Literal

import torch
from torch import Tensor
from torch.nn import functional as F
from torchvision.transforms.v2.functional import center_crop, rgb_to_grayscale

from data.batch import DataError
from data.files.image_files import find_image_paths, read_rgb
from data.folder import SPLITS
from data.preprocessing import resize_image
from tools.convert_data.conversion import Conversion

Source = Literal["edges", "grey", "noisy", "reduced"]

SUFFIXES = {"png": ".png", "jpeg": ".jpg"}
_STRONG_SHARE = 0.06  # share of pixels with enough contrast to begin a line
_MIN_THRESHOLD, _MAX_THRESHOLD = 0.05, 0.25  # limits of the contrast that begins a line, for grey levels in [0, 1]
_WEAK = 0.4  # a line continues while its contrast exceeds this share of the contrast that begins a line
_SOBEL = ((-1.0, 0.0, 1.0), (-2.0, 0.0, 2.0), (-1.0, 0.0, 1.0))
_SOBEL_VARIANCE = 1 / 3  # variance of the blur along the filter's direction, in square pixels
_LUMA = (0.299, 0.587, 0.114)


@dataclass(frozen=True)
class PhotoPairs:
    """Settings that convert a photograph to a pair.

    size: Largest length of the longer side, in pixels.
    sigma: Standard deviation of the blur before edge detection (in pixels) or of the noise (in pixel values).
    factor: Divisor of height and width for reduced sources. Photographs are cropped to multiples of `factor`.
    suffix: File suffix. Edges and noisy images are always PNG, because JPEG would change them.
    """

    source: Source
    size: int
    sigma: float
    factor: int
    suffix: str

    def check_present(self, folder: Path, splits: Mapping[str, str]) -> None:
        """Raise DataError if the folder has a photograph in another split than `splits` says."""
        for split in SPLITS:
            for name, path in find_image_paths(folder / f"{split}_B", []).items():
                if splits.get(name, split) != split:
                    remedy = "use the same --val and --test as before, or another folder TO"
                    raise DataError(f"{path}: now belongs to {splits[name]}; {remedy}")

    def conversion(self, photo: Path, name: str, folder: Path, split: str) -> Conversion:
        """Return the conversion of a photograph to a pair in `folder`, the folder of the new data set."""
        suffix = ".png" if self.source in ("edges", "noisy") else self.suffix
        files = folder / f"{split}_A/{name}{suffix}", folder / f"{split}_B/{name}{self.suffix}"
        return Conversion(split, files, partial(self, photo))

    def __call__(self, path: Path) -> tuple[Tensor, Tensor]:
        """Return the source and the photograph, (3, H, W) uint8 each. Raise DataError if `path` cannot be used."""
        photo = read_rgb(path)
        height, width = photo.shape[-2:]
        if self.source == "reduced" and min(height, width) < self.factor:
            raise DataError(f"{path}: is {width}x{height}, too small to be reduced by {self.factor}")
        if (longer := max(height, width)) > self.size:
            photo = resize_image(photo, max(1, height * self.size // longer), max(1, width * self.size // longer))
        if self.source == "reduced":  # crop to multiples of the factor, so that source and photo align
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
                seed = zlib.crc32(photo.numpy().tobytes())  # depends only on the photograph
                noise = torch.randn(photo.shape, generator=torch.Generator().manual_seed(seed)) * self.sigma
                return (photo + noise).round_().clamp_(0, 255).to(torch.uint8)
            case "reduced":
                return resize_image(photo, height // self.factor, width // self.factor)


def split_of(name: str, shares: dict[str, float]) -> str:
    """Return the split of a photograph. The split depends only on a hash of the photograph's name.

    shares: Shares of val and test, in [0, 1]. The rest is train.
    """
    position = int.from_bytes(hashlib.sha256(name.encode()).digest()[:8]) / 2**64
    for split, share in shares.items():
        if position < share:
            return split
        position -= share
    return "train"


def draw_edges(photo: Tensor, sigma: float) -> Tensor:
    """Return the edges (Canny 1986) as black lines, one pixel wide, on white: (3, H, W) uint8, 0 and 255.

    photo: (3, H, W) uint8 RGB.
    sigma: Standard deviation of the Gaussian blur, in pixels. A larger blur keeps only lines of larger shapes.
    """
    grey = (photo.float() / 255 * torch.tensor(_LUMA)[:, None, None]).sum(0)
    # a blurred contour with contrast c rises by at most c / (sqrt(2 pi) sigma) per pixel; Sobel's filter adds some blur
    rise = _gradient(_blurred(grey, sigma))
    gradient = rise * math.sqrt(2 * math.pi * (sigma**2 + _SOBEL_VARIANCE))
    length = gradient.norm(dim=0).flatten()
    strong = length.kthvalue(max(1, round((1 - _STRONG_SHARE) * len(length)))).values.clamp(
        _MIN_THRESHOLD, _MAX_THRESHOLD
    )
    ridge = _thinned(gradient)
    lines = _connected(ridge > strong, ridge > _WEAK * strong)
    return torch.where(lines, 0, 255).to(torch.uint8).expand(3, -1, -1).contiguous()


def _blurred(grey: Tensor, sigma: float) -> Tensor:
    """Return a blurred (H, W) image. The padding repeats the pixels at the border."""
    radius = max(1, round(3 * sigma))
    kernel = torch.exp(-(torch.arange(-radius, radius + 1.0) ** 2) / (2 * sigma**2))
    kernel /= kernel.sum()
    padded = F.pad(grey[None, None], [radius] * 4, mode="replicate")
    return F.conv2d(F.conv2d(padded, kernel[None, None, None]), kernel[None, None, :, None])[0, 0]


def _gradient(grey: Tensor) -> Tensor:
    """Return the (2, H, W) gradient of an (H, W) image, in x and y."""
    sobel = torch.tensor(_SOBEL) / 8
    padded = F.pad(grey[None, None], [1] * 4, mode="replicate")
    return F.conv2d(padded, torch.stack([sobel, sobel.T])[:, None])[0]


def _thinned(gradient: Tensor) -> Tensor:
    """Return the (H, W) length of a gradient. Set pixels to 0 if a neighbour across the line has a longer gradient."""
    height, width = gradient.shape[1:]
    length = gradient.norm(dim=0)
    padded = F.pad(length, [1] * 4)
    # the direction across the line, in steps of 45 degrees: right, down right, down, down left
    octant = (torch.atan2(gradient[1], gradient[0]) / (torch.pi / 4)).round().long() % 4
    is_ridge = torch.zeros_like(length, dtype=torch.bool)
    for number, (down, right) in enumerate(((0, 1), (1, 1), (1, 0), (1, -1))):
        after = padded[1 + down :, 1 + right :][:height, :width]
        before = padded[1 - down :, 1 - right :][:height, :width]
        # if two neighbours are equal, keep only one
        is_ridge |= (octant == number) & (length >= after) & (length > before)
    return length * is_ridge


def _connected(strong: Tensor, weak: Tensor) -> Tensor:
    """Return a mask (H, W) of strong pixels, and of weak pixels that are connected to a strong pixel."""
    height, width = strong.shape
    lines, allowed = (F.pad(mask, [1] * 4).flatten() for mask in (strong, weak))
    row = width + 2
    around = torch.tensor([-row - 1, -row, -row + 1, -1, 1, row - 1, row, row + 1])
    ends = lines.nonzero()[:, 0]
    while len(ends):
        ends = (ends[:, None] + around).flatten()
        ends = ends[allowed[ends] & ~lines[ends]].unique()
        lines[ends] = True
    return lines.view(height + 2, row)[1:-1, 1:-1]
