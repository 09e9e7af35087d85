"""Images that Pillow decodes: all formats except TIFF and .npy.

If the package kornia-rs is installed, it decodes some PNG and JPEG files to the same pixels in less time. If it
refuses a damaged file, Pillow decodes the file.
"""

import struct
from collections.abc import Callable
from contextlib import suppress
from typing import Any, BinaryIO

import numpy as np
from PIL import ExifTags, Image, ImageOps
from PIL.ImageFile import ImageFile

from data.batch import DataError
from data.files.stored_image import StoredImage, UnfitError, check_size, not_ids, with_few_scans

kornia: Any = None
with suppress(ImportError):  # the extra `fast` is optional
    from kornia_rs import io as kornia

_DECODERS: dict[tuple[str | None, str], Callable[[bytes, tuple[int, int]], np.ndarray]] = {
    ("PNG", "RGB"): lambda content, size: kornia.decode_image_png_u8(content, size, "rgb"),
    ("PNG", "L"): lambda content, size: kornia.decode_image_png_u8(content, size, "mono")[..., 0],
    ("PNG", "I;16B"): lambda content, size: kornia.decode_image_png_u16(content, size, "mono")[..., 0],
    ("JPEG", "RGB"): lambda content, _: kornia.decode_image_jpegturbo(content, "rgb"),
}
# chunks of PNG files that do not change the pixels that Pillow returns
_WITHOUT_EFFECT = b"IHDR IDAT IEND gAMA cHRM sRGB iCCP pHYs sBIT tIME bKGD tEXt zTXt iTXt".split()
_ORIENTATIONS = (b"Raw profile type exif", b"XML:com.adobe.xmp")  # names of PNG texts that can hold an orientation

PILLOW_FORMATS = ("PNG", "JPEG", "PPM", "BMP", "WEBP")
Image.MAX_IMAGE_PIXELS = None  # `check_size` limits the size
_CHANNELS = {"L": 1, "LA": 2, "RGB": 3, "RGBA": 4}  # number of channels, by mode
_ALPHA = {"LA": 1, "RGBA": 3}  # channel of transparency, by mode
_ID_MODES = ("1", "L", "P", "I", "I;16", "I;16L", "I;16B")


class PillowImage(StoredImage):
    """An open image in one of PILLOW_FORMATS.

    Raises:
        TooLargeError: The image is too large for the memory.
    """

    def __init__(self, file: BinaryIO, name: str) -> None:
        self._file, self._name = file, name
        self._image = image = self._opened()
        check_size(name, image.height, image.width)
        self._layout = _raw_mode(image)
        self._mode = image.mode  # Pillow returns all channels in this mode
        if image.mode not in _CHANNELS and not image.mode.startswith(("I", "F")):
            self._mode = "L" if image.mode == "1" else "RGBA" if image.has_transparency_data else "RGB"
        self.alpha = _ALPHA.get(self._mode)
        self.is_8_bit_rgb = not image.mode.startswith(("I", "F")) and not self._layout.endswith("16B")

    @property
    def size(self) -> tuple[int, int]:
        """Height and width of the upright image. An EXIF orientation that is stored after the pixels is ignored."""
        image = self._image
        if image.format != "PNG" or "exif" in image.info:  # without "exif", getexif would decode all pixels of a PNG
            with suppress(Exception):  # damaged EXIF
                if image.getexif().get(ExifTags.Base.Orientation) in (5, 6, 7, 8):
                    return image.width, image.height
        return image.height, image.width

    @property
    def n_channels(self) -> int:
        """Number of channels, including transparency."""
        return _CHANNELS.get(self._mode, 1)

    @property
    def palette(self) -> bytes:
        """RGB bytes of the palette; empty if the image has no palette."""
        if self._image.mode != "P" or self._image.palette is None:
            return b""
        raw_mode, colors = self._image.palette.getdata()
        holder = Image.new("P", (1, 1))
        holder.putpalette(colors, raw_mode)
        return bytes(holder.getpalette("RGB") or ())

    def rgb(self) -> np.ndarray:
        """Return (H, W, 3) uint8; raise UnfitError for 32-bit integers and floats."""
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
        """Return (H, W) int32; raise UnfitError if the file does not store one integer per pixel."""
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
            raise DataError(f"{self._name}: is 16-bit grey with transparency. Save it without transparency.")
        pixels = self._decoded(self._image)
        if self._layout.endswith(";16B") and pixels.dtype == np.uint8:
            # Pillow decodes only the first byte of 16-bit colours, or the second byte if the byte order is swapped.
            other = self._opened()
            other.tile = [other.tile[0]._replace(args=self._layout.replace(";16B", ";16L"))]
            pixels = pixels.astype(np.uint16) << 8 | self._decoded(other)
        return pixels.transpose(2, 0, 1)

    def _opened(self) -> ImageFile:
        self._file.seek(0)
        return Image.open(with_few_scans(self._file), formats=PILLOW_FORMATS)

    def _decoded(self, file_image: ImageFile) -> np.ndarray:
        """Return all channels, (H, W, C)."""
        image = _upright(file_image)
        if _is_16_bit_grey(image):
            return np.asarray(image).astype(np.uint16)[..., None]
        if self._mode not in _CHANNELS:
            return np.asarray(image).astype(np.float32)[..., None]
        return np.atleast_3d(np.array(image if image.mode == self._mode else image.convert(self._mode)))

    def _is_rescaled(self) -> bool:
        """Return whether Pillow rescales the grey levels.

        Pillow rescales 2-bit and 4-bit levels. It also rescales a PGM file whose maximum is neither 255 nor 65535.
        """
        decoder, _, _, parameters = self._image.tile[0]
        if decoder in ("ppm", "ppm_plain"):
            return isinstance(parameters, tuple) and parameters[-1] not in (255, 65535)
        return self._layout.startswith(("L;2", "L;4"))


def _is_16_bit_grey(image: Image.Image) -> bool:
    """Return whether a loaded image is 16-bit grey. Pillow loads 16-bit PGM files as 32-bit integers."""
    return image.mode.startswith("I;16") or (image.mode == "I" and image.format == "PPM")


def _upright(image: ImageFile) -> Image.Image:
    """Load an image and turn it by its EXIF orientation."""
    if 0 in image.size:
        raise UnfitError("holds no pixel")
    image.load()
    with suppress(Exception):  # damaged EXIF
        ImageOps.exif_transpose(image, in_place=True)
    return image


def _raw_mode(image: ImageFile) -> str:
    """Return Pillow's name for the pixel format in the file, or "" if there is none. Call this before loading."""
    arguments = image.tile[0].args if image.tile else ""
    name: Any = arguments[0] if isinstance(arguments, tuple) and arguments else arguments
    return name if isinstance(name, str) else ""


def decode_quickly(image: ImageFile) -> np.ndarray | None:
    """Decode an image with kornia-rs to (H, W, 3) or (H, W). Return None if Pillow must decode the image.

    Call this before the image is loaded. Pillow must decode images with transparency, an orientation or damage, and
    formats that are not in _DECODERS. If kornia-rs is not installed, Pillow must decode all images.
    """
    decode = _DECODERS.get((image.format, _raw_mode(image)))
    if kornia is None or decode is None or image.fp is None:
        return None
    position = image.fp.tell()
    image.fp.seek(0)
    content = image.fp.read()
    image.fp.seek(position)
    try:
        is_turned = image.format == "JPEG" and image.getexif().get(ExifTags.Base.Orientation, 1) != 1
        if is_turned or (image.format == "PNG" and not _is_plain(content)):
            return None
        return decode(content, (image.height, image.width))
    except Exception:  # noqa: BLE001  kornia-rs has no error class of its own; Pillow will report the problem
        return None


def _is_plain(content: bytes) -> bool:
    """Return whether a PNG file is complete and has no orientation, transparency or unknown chunk."""
    position, kind = 8, b""
    while kind != b"IEND" and position + 8 <= len(content):
        length, kind = struct.unpack_from(">I4s", content, position)
        if kind not in _WITHOUT_EFFECT or content.startswith(_ORIENTATIONS, position + 8):
            return False
        position += length + 12
    return kind == b"IEND"
