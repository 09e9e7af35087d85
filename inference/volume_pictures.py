"""Pictures of a translated volume: its middle slices along the three axes, side by side."""

from collections.abc import Mapping, Sequence

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from data.volume_cache import value_window
from utils.pictures import resize

_SIDE = 256  # pixels; longest side of a slice
_GAP = 4  # pixels after each slice
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
    cuts = {kind: _middle_planes(volumes[kind], mask) for kind in ("source", "translated", "target") if kind in volumes}
    sampled = volumes["source"][::2, ::2, ::2]  # enough for percentiles, and eight times as fast
    ends = dict.fromkeys(cuts, window) | {"source": value_window(sampled)}
    if "target" in cuts:
        cuts["difference"] = [fake - real for fake, real in zip(cuts["translated"], cuts["target"], strict=True)]
        ends["difference"] = (-_DIFFERENCE, _DIFFERENCE)
    return {kind: _side_by_side(planes, spacing, *ends[kind]) for kind, planes in cuts.items()}


def _middle_planes(volume: np.ndarray, mask: np.ndarray | None) -> list[np.ndarray]:
    """Return the axial, coronal and sagittal slice through the middle of the mask, float32."""
    planes = []
    for axis, side in enumerate(volume.shape):
        others = tuple(other for other in range(3) if other != axis)
        inside = np.arange(side) if mask is None else np.flatnonzero(mask.max(axis=others) > 0)
        middle = (int(inside[0]) + int(inside[-1])) // 2 if inside.size else (side - 1) // 2
        planes.append(np.take(volume, middle, axis).astype(np.float32))
    return planes


def _side_by_side(planes: Sequence[np.ndarray], spacing: Sequence[float], low: float, high: float) -> Tensor:
    """Return a grey picture of the planes, (3, H, W) uint8, with square pixels and the head at the top."""
    (height, width), (depth, _) = planes[0].shape, planes[1].shape
    x, y, z = (side * step for side, step in zip((width, height, depth), spacing, strict=True))  # mm
    unit, shown = max(x, y, z) / _SIDE, []
    for plane, upwards, sizes in zip(planes, (1, -1, -1), ((y, x), (z, x), (z, y)), strict=True):  # z points up
        grey = np.clip((plane[::upwards] - low) / (high - low) * 255, 0, 255).round().astype(np.uint8)
        shown.append(resize(torch.from_numpy(grey)[None], *(max(1, round(size / unit)) for size in sizes)))
    tallest = max(picture.shape[1] for picture in shown)
    padded = [F.pad(picture, (0, _GAP, 0, tallest - picture.shape[1])) for picture in shown]
    return torch.cat(padded, dim=2).expand(3, -1, -1).contiguous()
