"""The interface of open image files, for all formats."""

from abc import ABC, abstractmethod

import numpy as np


class UnfitError(Exception):
    """The file is an intact image, but its pixels cannot be used."""


def not_ids(pixels: str) -> UnfitError:
    """Return the error of a label map that holds these pixels instead of an integer per pixel."""
    return UnfitError(
        f"holds {pixels} pixels, expected one integer id per pixel (8-bit or 16-bit PNG, or palette PNG with one "
        "palette for all files). For maps drawn in colours: data.label_colors=FILE, or ids by python -m "
        "tools.convert_data colors-to-ids FROM TO, or RGB pairs with data.n_classes=0"
    )


class StoredImage(ABC):
    """An open image file. Opening it reads its header only. Its methods may raise any error if the file is damaged.

    alpha: Channel with the transparency, or None.
    is_8_bit_rgb: Whether the image is grey or RGB of up to 8 bits, as photographs are.
    """

    alpha: int | None = None
    is_8_bit_rgb: bool = False

    @property
    @abstractmethod
    def size(self) -> tuple[int, int]:
        """Height and width, upright."""

    @property
    @abstractmethod
    def n_channels(self) -> int:
        """Number of channels, with transparency."""

    @property
    def n_images(self) -> int:
        """Number of images in the file."""
        return 1

    @property
    def part(self) -> str:
        """Which part of the file the image is, such as "page 2 of 5" or "level 1 of 3"; empty if it is the only one."""
        return ""

    @property
    def palette(self) -> bytes:
        """Colours as RGB by index; empty for an image without a palette."""
        return b""

    @abstractmethod
    def rgb(self) -> np.ndarray:
        """Return (H, W, 3) uint8. Only the high byte of 16 bits is kept, and transparency is dropped."""

    @abstractmethod
    def ids(self) -> np.ndarray:
        """Return (H, W) int32: grey levels or palette indices, as stored."""

    @abstractmethod
    def pixels(self) -> np.ndarray:
        """Return all channels, (C, H, W), in the type of the file."""
