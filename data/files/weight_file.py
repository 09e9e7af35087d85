"""Maps of weights, by which the pixels of a target count more or less in the losses."""

from torch import Tensor

from data.batch import DataError
from data.files.stored_images import read_pixels
from data.store import File
from utils.text import counted

MAX_WEIGHT = 1e15  # larger numbers stand for missing values, and the sum of a batch would lose or overflow the others


def read_weights(file: File) -> Tensor:
    """Read a map of weights as (1, H, W) uint8, uint16, int16 or float32, as it is stored.

    Raises:
        DataError: the file is missing, damaged or too large, has several channels, or a weight is negative, above
            MAX_WEIGHT or no number.
    """
    weights = read_pixels(file, 1)
    if len(weights) != 1:
        raise DataError(f"{file}: has {counted(len(weights), 'channel')}, a map of weights has 1: save it in grey")
    values = weights.float()
    is_wrong = ~((values >= 0) & (values <= MAX_WEIGHT))
    if bool(is_wrong.any()):
        _, row, column = (int(i) for i in is_wrong.nonzero()[0])
        raise DataError(
            f"{file}: row {row}, column {column} holds {float(values[0, row, column]):g} "
            f"({counted(int(is_wrong.sum()), 'such pixel')}), expected weights from 0 to {MAX_WEIGHT:g}: "
            "replace such values; 0 ignores a pixel"
        )
    return weights
