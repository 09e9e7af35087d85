"""Values that stand for pixels without data, as -9999 in elevation models."""

import math

import numpy as np
import torch
from torch import Tensor

from data.files.tiff_file import TIFF_SUFFIXES, tagged_no_data
from data.store import File

# of ArcGIS and GDAL, and netCDF's _FillValue of floats
_USUAL = (-9999.0, -99999.0, -999.0, 1e20, 9.969209968386869e36, -3.4028234663852886e38)
_LIMITS = (-32768.0, -32767.0, 65535.0)  # of integers of 16 bits; saturated pixels have them too
_LEAST_GAP = 0.05  # to all other values, as a share of their span; of a limit the span itself


def no_data(image: Tensor, file: File | None) -> tuple[float, int] | None:
    """Return the value that stands for no data in a (C, H, W) image, and how many pixels have it; None where none do.

    It is the value that the file names, a TIFF with GDAL's tag. Otherwise it is a usual one, apart from all others.
    Images of 8 bits have none: they use all of their values.
    """
    if image.dtype == torch.uint8:
        return None
    values = image.numpy()
    tagged = tagged_no_data(file) if file and file.suffix.lower() in TIFF_SUFFIXES else None
    for value in (tagged, float(values.min()), float(values.max())):
        if value is None or not math.isfinite(value):
            continue
        least_gap = 0.0 if value == tagged else _least_gap(value)
        is_value = values == (np.float32(value) if values.dtype == np.float32 else value)
        if least_gap is not None and is_value.any() and _gap(value, values[~is_value]) >= least_gap:
            return value, int(is_value.any(axis=0).sum())
    return None


def _least_gap(value: float) -> float | None:
    """Return the gap to others, as a share of their span, that makes a value one of no data; None where none does."""
    if value in _LIMITS:
        return 1.0
    return _LEAST_GAP if any(math.isclose(value, usual, rel_tol=1e-6) for usual in _USUAL) else None


def _gap(value: float, others: np.ndarray) -> float:
    """Return the distance of a value to the nearest of others, none of which lies on its other side."""
    if not others.size:
        return 0.0
    low, high = float(others.min()), float(others.max())
    return min(abs(low - value), abs(high - value)) / max(high - low, 1e-30)
