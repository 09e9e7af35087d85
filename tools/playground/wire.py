"""Pictures as bytes between the page and the server: see page/wire.js.

The source comes first, as int32 class ids or as RGB of 8 bits, then the instance ids, int32; all are little-endian, row
by row.
"""

import numpy as np
import torch
from torch import Tensor

from data.batch import DataError, Sample
from data.class_ids import checked_classes
from data.conditioning import Conditioning

NAME = "source"  # of every drawing: seeds of features and noise depend on it, as on a file's name in test.py
MAX_SIDE = 16384
MAX_BYTES = 2**26  # of a picture
MAX_PIXELS = MAX_BYTES // 8  # of one with ids and instances


def unpack(body: bytes, width: int, height: int, conditioning: Conditioning, ignore_id: int | None) -> Sample:
    """Return the picture as a sample.

    Raises:
        DataError: the bytes are none of this size, or a pixel is no class.
    """
    if not (0 < width <= MAX_SIDE and 0 < height <= MAX_SIDE):
        raise DataError(f"a picture of {width}x{height}: expected sides of 1 to {MAX_SIDE} pixels")
    n_pixels, instances = width * height, None
    expected = n_pixels * ((4 if conditioning.n_classes else 3) + 4 * int(conditioning.needs_instances))
    if len(body) != expected:
        raise DataError(f"a picture of {width}x{height} has {expected} bytes, found {len(body)}")
    if conditioning.needs_instances:
        instances = _ids(body[-4 * n_pixels :], height, width)
    if conditioning.n_classes:
        ids = _ids(body[: 4 * n_pixels], height, width)
        source = checked_classes(ids, NAME, n_classes=conditioning.n_classes, ignore_id=ignore_id)
    else:
        pixels = np.frombuffer(body, np.uint8, 3 * n_pixels).reshape(height, width, 3)
        source = torch.from_numpy(pixels.transpose(2, 0, 1).copy())
    return Sample(NAME, source, instances, None)


def pack(sample: Sample, conditioning: Conditioning, ignore_id: int | None) -> bytes:
    """Return a sample's source and instances as bytes; ignored pixels get the id that they have in files."""
    source = sample.source
    if conditioning.n_classes:
        ids = source.int()
        if ignore_id is not None:
            ids = torch.where(ids == conditioning.n_classes, ignore_id, ids)
        packed = _bytes_of(ids)
    else:
        packed = source.permute(1, 2, 0).numpy().tobytes()
    if conditioning.needs_instances:
        assert sample.instances is not None
        packed += _bytes_of(sample.instances)
    return packed


def _ids(data: bytes, height: int, width: int) -> Tensor:
    """Return (1, H, W) int32."""
    return torch.from_numpy(np.frombuffer(data, "<i4").reshape(1, height, width).astype(np.int32))


def _bytes_of(ids: Tensor) -> bytes:
    return ids.int().numpy().astype("<i4").tobytes()
