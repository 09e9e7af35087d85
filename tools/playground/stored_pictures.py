"""Sources that are not 8-bit RGB on the page, which shows pictures of them."""

from collections.abc import Sequence
from dataclasses import replace
from hashlib import sha256

from torch import Tensor

from data.batch import DataError, Sample
from inference.pictures import picture
from tools.playground.samples import Samples
from tools.playground.wire import NAME


class StoredPictures:
    """Finds the samples whose pictures a page sends back: the pictures themselves lack bands and values.

    show_channels: those that are shown, as for `inference.pictures.picture`.
    """

    def __init__(self, samples: Samples, show_channels: Sequence[int] | None) -> None:
        self._samples = samples
        self._show_channels = show_channels
        self._indices: dict[bytes, int] = {}

    def show(self, index: int) -> Sample:
        """Return sample `index` with its source as (3, H, W) uint8, each channel stretched.

        Raises:
            DataError: there is none, or its files cannot be read.
        """
        sample = self._samples.read(index)
        shown = picture(sample.source, self._show_channels).contiguous()
        self._indices[_digest(shown)] = index
        return replace(sample, source=shown)

    def find(self, shown: Sample) -> Sample:
        """Return the sample that a picture shows, as it is stored.

        Raises:
            DataError: the picture was drawn on, or is none of a sample.
        """
        index = self._indices.get(_digest(shown.source))
        if index is None:
            raise DataError(
                "this picture has not the values that the generator takes: choose a sample, or translate files with "
                "python test.py --input FOLDER"
            )
        return replace(self._samples.read(index), name=NAME)


def _digest(image: Tensor) -> bytes:
    return sha256(str(tuple(image.shape)).encode() + image.numpy().tobytes()).digest()
