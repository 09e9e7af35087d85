"""Images that Pillow decodes: all formats except TIFF and .npy."""

from contextlib import suppress
from typing import BinaryIO

import numpy as np
from PIL import ExifTags, Image, ImageOps
from PIL.ImageFile import ImageFile

from data.batch import DataError
from data.files.jpeg_scans import with_few_scans
from data.files.quick_decoding import decode_quickly, raw_mode
from data.files.size_guard import check_size
from data.files.stored_image import StoredImage, UnfitError, not_ids

PILLOW_FORMATS = ("PNG", "JPEG", "PPM", "BMP", "WEBP")
Image.MAX_IMAGE_PIXELS = None  # check_size is the guard
_CHANNELS = {"L": 1, "LA": 2, "RGB": 3, "RGBA": 4}  # keys: modes
_ALPHA = {"LA": 1, "RGBA": 3}  # channel of transparency; keys: modes
_ID_MODES = ("1", "L", "P", "I", "I;16", "I;16L", "I;16B")


class PillowImage(StoredImage):
    """An open image of PILLOW_FORMATS.

    Raises:
        TooLargeError: The pixels do not fit into the memory.
    """

    def __init__(self, file: BinaryIO, name: str) -> None:
        self._file, self._name = file, name
        self._image = image = self._opened()
        check_size(name, image.height, image.width)
        self._layout = raw_mode(image)
        self._mode = _mode_to_read(image)
        self.alpha = _ALPHA.get(self._mode)
        self.is_8_bit_rgb = not image.mode.startswith(("I", "F")) and not self._layout.endswith("16B")

    @property
    def size(self) -> tuple[int, int]:
        """Height and width, upright if the orientation is in the header."""
        image = self._image
        if image.format != "PNG" or "exif" in image.info:  # otherwise Pillow decodes a PNG to look for EXIF
            with suppress(Exception):  # damaged EXIF
                if image.getexif().get(ExifTags.Base.Orientation) in (5, 6, 7, 8):
                    return image.width, image.height
        return image.height, image.width

    @property
    def n_channels(self) -> int:
        """Number of channels, with transparency."""
        return _CHANNELS.get(self._mode, 1)

    @property
    def palette(self) -> bytes:
        """Colours as RGB by index; empty for an image without a palette."""
        if self._image.mode != "P" or self._image.palette is None:
            return b""
        raw_mode, colors = self._image.palette.getdata()
        holder = Image.new("P", (1, 1))
        holder.putpalette(colors, raw_mode)
        return bytes(holder.getpalette("RGB") or ())

    def rgb(self) -> np.ndarray:
        """Return (H, W, 3) uint8; raise UnfitError for integers of 32 bits and floats."""
        if self._image.mode == "RGB" and (pixels := decode_quickly(self._image)) is not None:
            return pixels
        image = _upright(self._image)
        if _is_16_bit_grey(image):
            grey = (np.asarray(image).astype(np.int64) >> 8).clip(0, 255).astype(np.uint8)
            return np.repeat(grey[..., None], 3, axis=2)
        if image.mode in ("I", "F"):
            values = "32-bit integers" if image.mode == "I" else "floating-point numbers"
            raise UnfitError(f"holds {values}, expected an 8- or 16-bit image")
        return np.array(image if image.mode == "RGB" else image.convert("RGB"))

    def ids(self) -> np.ndarray:
        """Return (H, W) int32; raise UnfitError if the image does not hold an integer per pixel as stored."""
        if self._image.mode not in _ID_MODES:
            raise not_ids(self._image.mode)
        if self._image.format in ("JPEG", "MPO"):
            raise UnfitError("JPEG changes ids when it compresses; save the map as PNG")
        if self._is_rescaled():
            raise UnfitError("holds grey levels that Pillow would rescale, not ids; save the map as 8- or 16-bit PNG")
        pixels = decode_quickly(self._image)
        return (np.asarray(_upright(self._image)) if pixels is None else pixels).astype(np.int32)

    def pixels(self) -> np.ndarray:
        """Return (C, H, W) uint8 or uint16, or float32 if the file has 32 bits."""
        if self._layout == "LA;16B":
            raise DataError(f"{self._name}: is 16-bit grey with transparency; save it without")
        pixels = self._decoded(self._image)
        if self._layout.endswith(";16B") and pixels.dtype == np.uint8:
            # Pillow decodes the first byte of colours of 16 bits. In the other byte order it decodes the second one.
            other = self._opened()
            other.tile = [other.tile[0]._replace(args=self._layout.replace(";16B", ";16L"))]
            pixels = pixels.astype(np.uint16) << 8 | self._decoded(other)
        return pixels.transpose(2, 0, 1)

    def _opened(self) -> ImageFile:
        self._file.seek(0)
        return Image.open(with_few_scans(self._file), formats=PILLOW_FORMATS)

    def _decoded(self, file_image: ImageFile) -> np.ndarray:
        """Return (H, W, C)."""
        image = _upright(file_image)
        if _is_16_bit_grey(image):
            return np.asarray(image).astype(np.uint16)[..., None]
        if self._mode not in _CHANNELS:
            return np.asarray(image).astype(np.float32)[..., None]
        return np.atleast_3d(np.array(image if image.mode == self._mode else image.convert(self._mode)))

    def _is_rescaled(self) -> bool:
        """Return whether Pillow rescales grey levels.

        It rescales levels of 2 and 4 bits. It also rescales a PGM with a maximum that is not the maximum of its type.
        """
        decoder, _, _, parameters = self._image.tile[0]
        if decoder in ("ppm", "ppm_plain"):
            return isinstance(parameters, tuple) and parameters[-1] not in (255, 65535)
        return self._layout.startswith(("L;2", "L;4"))


def _mode_to_read(image: ImageFile) -> str:
    """Return the mode for Pillow to return all channels of an image that is not loaded yet."""
    if image.mode in _CHANNELS or image.mode.startswith(("I", "F")):
        return image.mode
    return "L" if image.mode == "1" else "RGBA" if image.has_transparency_data else "RGB"


def _is_16_bit_grey(image: Image.Image) -> bool:
    """Return whether a loaded image has one channel of 16 bits. Pillow gives 32 bits to a PGM of 16 bits."""
    return image.mode.startswith("I;16") or (image.mode == "I" and image.format == "PPM")


def _upright(image: ImageFile) -> Image.Image:
    """Load an image and turn it by its EXIF orientation."""
    if 0 in image.size:
        raise UnfitError("holds no pixel")
    image.load()
    with suppress(Exception):  # damaged EXIF
        ImageOps.exif_transpose(image, in_place=True)
    return image
