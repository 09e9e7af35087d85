"""Samples of a split, from which a drawing can start."""

from dataclasses import dataclass

from configs import build
from configs.schema import Config
from configs.splits import check_has_split, open_split
from data.batch import DataError, Sample
from data.layout import Layout
from data.preprocessing import Preprocessing
from inference.padding import read_padded
from utils.log import logger

MOST = 200  # names on the page


@dataclass(frozen=True)
class Samples:
    """The first samples of a split, in the size of the training."""

    layout: Layout | None
    preprocessing: Preprocessing
    names: list[str]

    def read(self, index: int) -> Sample:
        """Return sample `index`.

        Raises:
            DataError: there is none, or its files cannot be read.
        """
        if self.layout is None or not 0 <= index < len(self.names):
            raise DataError(f"sample {index}: there are {len(self.names)}")
        return read_padded(self.layout, self.preprocessing, index, keeps_size=False).sample

    @property
    def size(self) -> tuple[int, int] | None:
        """Height and width of the first sample; None where there is none that can be read."""
        try:
            height, width = self.read(0).source.shape[-2:]
        except DataError:
            return None
        return height, width


def open_samples(config: Config, split: str | None = None, *, has_data_set: bool) -> Samples:
    """Return the samples of a split; by default of the test split, or none where it is not there, which is logged.

    config: the settings that samples are read with. has_data_set: whether the settings name one.

    Raises:
        DataError: there is no such split, or it cannot be read.
    """
    preprocessing = build.build_preprocessing(config)
    if split is not None and not has_data_set:
        raise DataError(f"--split {split}: the file names no data set. Remove --split.")
    if not has_data_set:
        return Samples(None, preprocessing, [])
    chosen = split or config.data.test_split
    try:
        check_has_split(config, chosen)
        layout = open_split(config, chosen, needs_targets=False)
    except DataError as error:
        if split is not None:
            raise
        logger.info("samples      none: %s", error)
        return Samples(None, preprocessing, [])
    logger.info("samples      of the split %s", chosen)
    return Samples(layout, preprocessing, list(layout.names[:MOST]))
