"""Writing PNG files of 16-bit colours, which Pillow does not write."""

import struct
import zlib
from pathlib import Path

import numpy as np

_SIGNATURE = b"\x89PNG\r\n\x1a\n"
_COLOR_TYPES = {1: 0, 3: 2, 4: 6}  # by number of channels; PNG specification, section 11.2.2
_UP = 2  # the filter that stores differences to the row above; section 9.2


def write_png16(path: Path, pixels: np.ndarray) -> None:
    """Write (C, H, W) uint16 pixels, grey, RGB or RGBA, as PNG."""
    n_channels, height, width = pixels.shape
    rows = np.ascontiguousarray(pixels.transpose(1, 2, 0), dtype=">u2").view(np.uint8).reshape(height, -1)
    filtered = np.diff(rows, axis=0, prepend=np.zeros_like(rows[:1]))  # modulo 256
    lines = np.concatenate([np.full((height, 1), _UP, np.uint8), filtered], axis=1)
    header = struct.pack(">IIBBBBB", width, height, 16, _COLOR_TYPES[n_channels], 0, 0, 0)
    chunks = [(b"IHDR", header), (b"IDAT", zlib.compress(lines.tobytes())), (b"IEND", b"")]
    path.write_bytes(_SIGNATURE + b"".join(_chunk(kind, content) for kind, content in chunks))


def _chunk(kind: bytes, content: bytes) -> bytes:
    return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))
