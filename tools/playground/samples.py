"""Samples of a split to start drawings from, as bytes for the page (see page/wire.js).

The bytes are the source as int32 class ids or 8-bit RGB, then the instance ids as int32. All are little-endian, row by
row.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from configs import build
from configs.splits import check_has_split, open_split, translated_split
from data.batch import DataError, Sample
from data.layout import Layout
from inference.load import LoadedGenerator
from inference.reading import read_padded
from utils.log import logger

MOST = 200  # names on the page
MAX_PIXELS = 2**23  # pixels of a picture


@dataclass(frozen=True)
class Samples:
    """The first samples of a split, in the size of the training.

    loaded: Generator with the settings for reading samples.
    layout: Split of the samples, or None.
    """

    loaded: LoadedGenerator
    layout: Layout | None = None

    @property
    def names(self) -> list[str]:
        """The names of the samples."""
        return list(self.layout.names[:MOST]) if self.layout else []

    def read(self, index: int) -> Sample:
        """Return sample `index`.

        Raises:
            DataError: There is no such sample, or its files cannot be read.
        """
        if self.layout is None or not 0 <= index < len(self.names):
            raise DataError(f"sample {index}: there are {len(self.names)}")
        preprocessing = build.build_preprocessing(self.loaded.config)
        return read_padded(self.layout, preprocessing, index, keeps_size=False).sample

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


def _bytes_of(ids: Tensor) -> bytes:
    return ids.int().numpy().astype("<i4").tobytes()
