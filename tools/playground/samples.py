"""Samples of a split to start drawings from, and pictures as bytes between the page and the server.

The bytes (see page/wire.js) are the source as int32 class ids or 8-bit RGB, then the instance ids as int32. All are
little-endian, row by row. Sources that cannot be drawn are sent as pictures of them.
"""

from dataclasses import dataclass, field, replace
from functools import cached_property
from hashlib import sha256

import numpy as np
import torch
from torch import Tensor

from configs import build
from configs.splits import check_has_split, open_split, translated_split
from data.batch import DataError, Sample
from data.class_ids import checked_classes
from data.layout import Layout
from data.preprocessing import Preprocessing
from inference.load import LoadedGenerator
from inference.reading import read_padded
from utils.log import logger
from utils.pictures import picture

MOST = 200  # names on the page
NAME = "source"  # name of every drawing; seeds of features and noise depend on it
MAX_BYTES = 2**26  # bytes of a picture
MAX_PIXELS = MAX_BYTES // 8  # pixels of a picture with ids and instances


@dataclass(frozen=True)
class Samples:
    """The first samples of a split, in the size of the training.

    Sources that are not 8-bit RGB cannot be drawn. The page gets pictures of them, without all bands and values, and
    sends such a picture to choose its sample.

    loaded: Generator with the settings for reading samples.
    layout: Split of the samples, or None.
    """

    loaded: LoadedGenerator
    layout: Layout | None = None
    _shown: dict[bytes, int] = field(default_factory=dict)

    @property
    def names(self) -> list[str]:
        """The names of the samples."""
        return list(self.layout.names[:MOST]) if self.layout else []

    @cached_property
    def preprocessing(self) -> Preprocessing:
        """Preprocessing that cuts samples to the sizes that the generator accepts."""
        return build.build_preprocessing(self.loaded.config)

    def read(self, index: int) -> Sample:
        """Return sample `index`.

        Raises:
            DataError: There is no such sample, or its files cannot be read.
        """
        if self.layout is None or not 0 <= index < len(self.names):
            raise DataError(f"sample {index}: there are {len(self.names)}")
        return read_padded(self.layout, self.preprocessing, index, keeps_size=False).sample

    def show(self, index: int) -> Sample:
        """Return sample `index` for the page, with a (3, H, W) uint8 picture of a source that cannot be drawn."""
        sample = self.read(index)
        if self.loaded.conditioning.source_is_drawn:
            return sample
        shown = picture(sample.source).contiguous()
        self._shown[_digest(shown)] = index
        return replace(sample, source=shown)

    def pack(self, sample: Sample) -> bytes:
        """Return a sample's source and instances as bytes. Ignored pixels get their id of files."""
        if n_classes := self.loaded.conditioning.n_classes:
            ids, ignored = sample.source.int(), self.loaded.data_facts.ignored_id
            packed = _bytes_of(ids if ignored is None else torch.where(ids == n_classes, ignored, ids))
        else:
            packed = sample.source.permute(1, 2, 0).numpy().tobytes()
        if not self.loaded.conditioning.needs_instances:
            return packed
        return packed + _bytes_of(sample.maps["instances"])

    def unpack(self, body: bytes, width: int, height: int) -> Sample:
        """Return the sample of a picture that the page has sent: the picture itself, or the sample that it shows.

        Raises:
            DataError: The bytes have another size, or a pixel has no class. If sources cannot be drawn, the picture
                shows no sample.
        """
        drawing = self._drawing(body, width, height)
        if self.loaded.conditioning.source_is_drawn:
            return drawing
        index = self._shown.get(_digest(drawing.source))
        if index is None:
            raise DataError(
                "this picture lacks the values that the generator takes: choose a sample, or translate files with "
                "python test.py --input FOLDER"
            )
        return replace(self.read(index), name=NAME)

    def _drawing(self, body: bytes, width: int, height: int) -> Sample:
        rule, n_pixels, instances = self.loaded.conditioning, width * height, None
        expected = n_pixels * ((4 if rule.n_classes else 3) + 4 * int(rule.needs_instances))
        if not n_pixels or len(body) != expected:
            raise DataError(f"a picture of {width}x{height} has {expected} bytes, found {len(body)}")
        if rule.needs_instances:
            instances = _ids(body[-4 * n_pixels :], height, width)
        if rule.n_classes:
            ids = _ids(body[: 4 * n_pixels], height, width)
            ignored = self.loaded.data_facts.ignored_id
            source = checked_classes(ids, NAME, n_classes=rule.n_classes, ignore_id=ignored)
        else:
            pixels = np.frombuffer(body, np.uint8, 3 * n_pixels).reshape(height, width, 3)
            source = torch.from_numpy(pixels.transpose(2, 0, 1).copy())
        return Sample(NAME, source=source, instances=instances)


def open_samples(loaded: LoadedGenerator, split: str | None = None) -> Samples:
    """Return the samples of a split. The default is the test split; if it is missing, log that and return no samples.

    loaded: Generator with the settings for reading samples.

    Raises:
        DataError: There is no such split, or it cannot be read.
    """
    if loaded.step is None:  # the file of an original names no data set
        if split is not None:
            raise DataError(f"--split {split}: the file names no data set. Remove --split.")
        return Samples(loaded)
    config = loaded.config
    chosen = split or translated_split(config)
    try:
        check_has_split(config, chosen)
        layout = open_split(config, chosen, needs_targets=False)
    except DataError as error:
        if split is not None:
            raise
        logger.info("samples      none: %s", error)
        return Samples(loaded)
    logger.info("samples      of the split %s", chosen)
    return Samples(loaded, layout)


def _digest(image: Tensor) -> bytes:
    return sha256(str(tuple(image.shape)).encode() + image.numpy().tobytes()).digest()


def _ids(data: bytes, height: int, width: int) -> Tensor:
    """Return (1, H, W) int32."""
    return torch.from_numpy(np.frombuffer(data, "<i4").reshape(1, height, width).astype(np.int32))


def _bytes_of(ids: Tensor) -> bytes:
    return ids.int().numpy().astype("<i4").tobytes()
