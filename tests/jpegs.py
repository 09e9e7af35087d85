"""JPEG files of many scans."""

from io import BytesIO

import numpy as np
from PIL import Image


def jpeg(side: int = 16, **options: bool) -> bytes:
    file = BytesIO()
    pixels = np.random.default_rng(0).integers(0, 256, (side, side, 3), dtype=np.uint8)
    Image.fromarray(pixels).save(file, "JPEG", **options)
    return file.getvalue()


def scans(n_more: int, side: int = 16) -> bytes:
    """Return a progressive JPEG with its last scan repeated."""
    content = jpeg(side, progressive=True)
    last, end = content.rindex(b"\xff\xda"), content.rindex(b"\xff\xd9")
    return content[:end] + content[last:end] * n_more + content[end:]
