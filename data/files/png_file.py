"""Writing PNG files row by row, of 8 or 16 bits; Pillow writes all rows at once, and no colours of 16 bits."""

import struct
import zlib
from pathlib import Path

import numpy as np

from data.files.pixel_rows import Bands

_SIGNATURE = b"\x89PNG\r\n\x1a\n"
_COLOR_TYPES = {1: 0, 2: 4, 3: 2, 4: 6}  # by number of channels; PNG specification, section 11.2.2
_UP = 2  # the filter that stores differences to the row above; section 9.2
_STRIP_BYTES = 2**24


def write_png_rows(path: Path, image: Bands) -> None:
    """Write a uint8 or uint16 image, grey or RGB, with or without transparency, by its rows."""
    (n_channels, height, width), dtype = image.shape, image.dtype
    row_bytes = width * n_channels * dtype.itemsize
    compressor, above = zlib.compressobj(), np.zeros((1, row_bytes), np.uint8)
    with path.open("wb") as file:
        header = struct.pack(">IIBBBBB", width, height, 8 * dtype.itemsize, _COLOR_TYPES[n_channels], 0, 0, 0)
        file.write(_SIGNATURE + _chunk(b"IHDR", header))
        for strip in image.strips(max(1, _STRIP_BYTES // row_bytes)):
            pixels = np.ascontiguousarray(strip.transpose(1, 2, 0), dtype=dtype.newbyteorder(">"))
            rows = pixels.view(np.uint8).reshape(-1, row_bytes)
            lines = np.full((len(rows), 1 + row_bytes), _UP, np.uint8)
            lines[:, 1:] = np.diff(rows, axis=0, prepend=above)  # modulo 256
            file.write(_chunk(b"IDAT", compressor.compress(lines.data)))
            above = rows[-1:]
        file.write(_chunk(b"IDAT", compressor.flush()) + _chunk(b"IEND", b""))


def _chunk(kind: bytes, content: bytes) -> bytes:
    return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))
