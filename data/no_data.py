"""Pixels without data in images that are not 8-bit RGB: their value, their places, and filling."""

import math

import numpy as np
import torch
from torch import Tensor

from data.files.tiff_tags import file_tags
from data.folder import File

# values of ArcGIS and GDAL, and netCDF's _FillValue of floats
_NO_DATA = (-9999.0, -99999.0, -999.0, 1e20, 9.969209968386869e36, -3.4028234663852886e38)
_LIMITS = (-32768.0, -32767.0, 65535.0)  # 16-bit integers; saturated pixels have them too
_LEAST_GAP = 0.05  # distance of such a value from all others, divided by their range
_CT_PADDING = (-3024.0, -2000.0, -32768.0)  # outside the circle or the gantry, in Hounsfield units
_LEAST_OF_CT = -1100.0  # air has -1000, and scanners store no less than -1024


def no_data(image: Tensor, file: File | None) -> tuple[float, int] | None:
    """Return the value that stands for no data in a (C, H, W) image, and the number of its pixels, or None.

    It is the value of GDAL's tag in a TIFF, or a usual value that is far from all others. 8-bit images have none.
    """
    if image.dtype == torch.uint8:
        return None
    values, tagged = image.numpy(), file_tags(file).no_data
    for value in (tagged, float(values.min()), float(values.max())):
        if value is None or not math.isfinite(value):
            continue
        is_value = values == (np.float32(value) if values.dtype == np.float32 else value)
        if is_value.any() and (value == tagged or _is_apart(value, values[~is_value])):
            return value, int(is_value.any(axis=0).sum())
    return None


def _is_apart(value: float, others: np.ndarray) -> bool:
    if not others.size:
        return False
    low, high = float(others.min()), float(others.max())
    if value in _CT_PADDING and low >= _LEAST_OF_CT > value:
        return True
    gap = min(abs(low - value), abs(high - value)) / max(high - low, 1e-30)
    is_usual = any(math.isclose(value, usual, rel_tol=1e-6) for usual in _NO_DATA)
    return gap >= 1 if value in _LIMITS else is_usual and gap >= _LEAST_GAP


def missing_pixels(image: Tensor, value: float | None) -> Tensor | None:
    """Return (H, W) bool, True for pixels without data of a (C, H, W) image, or None if all pixels have data.

    In floats one channel has NaN, infinity or `value`. In integers all channels have `value`: dark pixels have data.
    """
    is_value = torch.zeros((), dtype=torch.bool)
    if image.is_floating_point():
        is_value = ~image.isfinite()
    if value is not None and math.isfinite(value):
        is_value = is_value | (image == value if image.is_floating_point() else image.to(torch.float64) == value)
    if not bool(is_value.any()):
        return None
    missing = is_value.any(dim=0) if image.is_floating_point() else is_value.all(dim=0)
    return missing if bool(missing.any()) else None


def filled(image: Tensor, missing: Tensor | None, otherwise: Tensor) -> Tensor:
    """Return a (C, H, W) image whose missing pixels repeat the nearest pixel of their row.

    missing: (H, W) bool, or None if no pixel is missing.
    otherwise: (C, 1, 1), values of rows that are missing as a whole.
    """
    if missing is None:
        return image
    is_missing, pixels = missing.numpy(), image.numpy()
    columns, width = np.arange(is_missing.shape[1]), is_missing.shape[1]
    left = np.maximum.accumulate(np.where(is_missing, -width, columns), axis=1)
    right = np.minimum.accumulate(np.where(is_missing, 2 * width, columns)[:, ::-1], axis=1)[:, ::-1]
    nearest = np.where(columns - left <= right - columns, left, right)
    is_empty = is_missing.all(axis=1)
    nearest[is_empty] = 0
    result = np.take_along_axis(pixels, nearest[None], axis=2)
    result[:, is_empty] = otherwise.numpy().astype(pixels.dtype)
    return torch.from_numpy(result)
