"""Decoding PNG and JPEG by kornia-rs, where it is installed: the pixels that Pillow decodes, in less time.

It is written in Rust, except for libjpeg-turbo, which Pillow uses too. It refuses more damaged files than Pillow.
"""

import struct
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import numpy as np
from PIL import ExifTags
from PIL.ImageFile import ImageFile

kornia: Any = None
with suppress(ImportError):  # the extra `fast` is optional
    from kornia_rs import io as kornia

_DECODERS: dict[tuple[str | None, str], Callable[[bytes, tuple[int, int]], np.ndarray]] = {
    ("PNG", "RGB"): lambda content, size: kornia.decode_image_png_u8(content, size, "rgb"),
    ("PNG", "L"): lambda content, size: kornia.decode_image_png_u8(content, size, "mono")[..., 0],
    ("PNG", "I;16B"): lambda content, size: kornia.decode_image_png_u16(content, size, "mono")[..., 0],
    ("JPEG", "RGB"): lambda content, _: kornia.decode_image_jpegturbo(content, "rgb"),
}
_WITHOUT_EFFECT = (
    b"IHDR IDAT IEND gAMA cHRM sRGB iCCP pHYs sBIT tIME bKGD tEXt zTXt iTXt".split()
)  # Pillow's pixels do not depend on them
_ORIENTATIONS = (b"Raw profile type exif", b"XML:com.adobe.xmp")  # names of texts that may hold one


def raw_mode(image: ImageFile) -> str:
    """Return Pillow's name of the layout of the pixels in a file that is not loaded yet; empty if it has none."""
    arguments = image.tile[0].args if image.tile else ""
    name: Any = arguments[0] if isinstance(arguments, tuple) and arguments else arguments
    return name if isinstance(name, str) else ""


def decode_quickly(image: ImageFile) -> np.ndarray | None:
    """Return (H, W, 3) or (H, W) of an image that is opened and not loaded, or None if Pillow has to decode it.

    Pillow decodes other pixels, images with transparency, an orientation or damage, and all images without kornia-rs.
    """
    decode = _DECODERS.get((image.format, raw_mode(image)))
    if kornia is None or decode is None or image.fp is None:
        return None
    position = image.fp.seek(0, 1)
    image.fp.seek(0)
    content = image.fp.read()
    image.fp.seek(position)
    try:
        is_turned = image.format == "JPEG" and image.getexif().get(ExifTags.Base.Orientation, 1) != 1
        if is_turned or (image.format == "PNG" and not _is_plain(content)):
            return None
        return decode(content, (image.height, image.width))
    except Exception:  # noqa: BLE001  kornia-rs raises no narrower type, and Pillow's message names what is wrong
        return None


def _is_plain(content: bytes) -> bool:
    """Return whether a PNG file is complete, and holds nothing that turns its pixels or makes some transparent."""
    position, kind = 8, b""
    while kind != b"IEND" and position + 8 <= len(content):
        length, kind = struct.unpack_from(">I4s", content, position)
        if kind not in _WITHOUT_EFFECT or content.startswith(_ORIENTATIONS, position + 8):
            return False
        position += length + 12
    return kind == b"IEND"
