"""Limits for JPEG files: a file of 1 MB may hold 30,000 scans, and each scan costs a pass over all pixels."""

import re
from typing import BinaryIO

MAX_SCANS = 100  # an encoder writes about 10; 100 empty ones of 4096x4096 pixels take 1.1 s
_HEAD = 2**16  # bytes that are read of most files
_MAX_SEGMENTS = 10_000  # metadata of 64 MB, for example a depth map, has 1,000
_SOI, _SOS, _EOI = b"\xff\xd8", 0xDA, 0xD9
_SEQUENTIAL, _PROGRESSIVE = (0xC0, 0xC1, 0xC9), (0xC2, 0xC6, 0xCA, 0xCE)
_FRAMES = set(range(0xC0, 0xD0)) - {0xC4, 0xC8, 0xCC}  # markers of headers that hold the size
_MARKER = re.compile(rb"\xff+([^\x00\xff\xd0-\xd7])", re.DOTALL)  # neither a stuffed byte nor a restart marker


def with_few_scans(file: BinaryIO) -> BinaryIO:
    """Return a file at its start; raise ValueError if it is a JPEG with too many scans or segments.

    Files of other formats pass. Only the head is read if the file has one scan, as most photographs have.
    """
    content = file.read(_HEAD)
    if content.startswith(_SOI) and not _is_bounded(content):
        _is_bounded(content + file.read())
    file.seek(0)
    return file


def _is_bounded(content: bytes) -> bool:
    """Return whether the bytes so far show that the number of scans is bounded; raise ValueError if it is too large."""
    n_scans, n_components, position = 0, 0, len(_SOI)
    for _ in range(_MAX_SEGMENTS):
        found = _MARKER.search(content, position)
        if found is None or found[1][0] == _EOI:
            return found is not None
        marker, start = found[1][0], found.end()
        position = start + int.from_bytes(content[start : start + 2], "big")
        if marker in (*_SEQUENTIAL, *_PROGRESSIVE):
            n_components = content[start + 7] if marker in _SEQUENTIAL and start + 7 < len(content) else -1
        elif marker == _SOS:
            if n_scans == 0 and content[start + 2 : start + 3] == bytes([n_components % 256]):
                return True  # all components in the first scan: a decoder reads no other one
            n_scans += 1
            if n_scans > MAX_SCANS:
                raise ValueError(f"it has more than {MAX_SCANS} scans; save it again")
    raise ValueError(f"it has more than {_MAX_SEGMENTS} segments; save it again")


def jpeg_size(content: bytes) -> tuple[int, int]:
    """Return height and width of a JPEG, or (0, 0) if its bytes do not hold them."""
    position = len(_SOI)
    while (found := _MARKER.search(content, position)) and found[1][0] not in (_SOS, _EOI):
        start = found.end()
        if found[1][0] in _FRAMES:
            height, width = content[start + 3 : start + 5], content[start + 5 : start + 7]
            return int.from_bytes(height, "big"), int.from_bytes(width, "big")
        position = start + int.from_bytes(content[start : start + 2], "big")
    return 0, 0
