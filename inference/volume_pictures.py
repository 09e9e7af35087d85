"""Pictures of a translated volume: its middle slices along the three axes, side by side."""

from collections.abc import Mapping, Sequence

import numpy as np
import torch
from torch import Tensor

from data.volume_cache import value_window
from utils.pictures import resize

_SIDE = 256  # pixels; longest side of a slice
_DIFFERENCE = 200.0  # difference in units of the targets that is shown as black or white


def pictures(
    volumes: Mapping[str, np.ndarray], mask: np.ndarray | None, spacing: Sequence[float], window: tuple[float, float]
) -> dict[str, Tensor]:
    """Return (3, H, W) uint8 pictures of the volumes. With a target, add a picture "difference".

    Each picture shows the axial, the coronal and the sagittal slice through the middle of the mask. The patient's head
    is at the top, and the patient's left is on the right. The difference is grey where target and translation agree.

    volumes: "source", "translated" and perhaps "target", (D, H, W) in LPS order. Others are not shown.
    mask: Volume that is above 0 inside. None: slices go through the middle of the volumes.
    spacing: Distances of voxels along x, y and z, in mm. The pictures have square pixels.
    window: Values of targets that are black and white.
    """
    sides = volumes["source"].shape
    inside = [np.arange(side) for side in sides] if mask is None or not mask.any() else np.nonzero(mask > 0)
    middle = [(int(places.min()) + int(places.max())) // 2 for places in inside]
    ends = {"source": value_window(volumes["source"]), "translated": window, "target": window}
    shown = {kind: _planes(volumes[kind], middle, spacing, *ends[kind]) for kind in ends if kind in volumes}
    if "target" in volumes:
        error = volumes["translated"].astype(np.float32) - volumes["target"]
        shown["difference"] = _planes(error, middle, spacing, -_DIFFERENCE, _DIFFERENCE)
    return shown


def _planes(volume: np.ndarray, middle: Sequence[int], spacing: Sequence[float], low: float, high: float) -> Tensor:
    sizes = [side * step for side, step in zip(volume.shape, spacing[::-1], strict=True)]  # mm along z, y and x
    unit, planes = max(sizes) / _SIDE, []
    for axis, index in enumerate(middle):
        plane = np.take(volume, index, axis).astype(np.float32)
        plane = plane if axis == 0 else plane[::-1]  # z points to the head
        grey = torch.from_numpy(np.clip((plane - low) / (high - low) * 255, 0, 255).round().astype(np.uint8))
        height, width = (max(1, round(size / unit)) for number, size in enumerate(sizes) if number != axis)
        planes.append(resize(grey[None], height, width))
    tallest = max(plane.shape[1] for plane in planes)
    padded = [np.pad(plane[0].numpy(), [(0, tallest - plane.shape[1]), (0, 4)]) for plane in planes]
    return torch.from_numpy(np.concatenate(padded, axis=1)).expand(3, -1, -1).contiguous()
