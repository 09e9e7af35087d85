"""Samples of a split: a drawing starts from one; sources that cannot be drawn are shown as pictures of them."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from hashlib import sha256

from torch import Tensor

from configs import build
from configs.label_maps import ignored_id
from configs.splits import check_has_split, open_split
from data.batch import DataError, Sample
from data.conditioning import Conditioning
from data.layout import Layout
from data.preprocessing import Preprocessing
from inference.load import LoadedGenerator
from inference.padding import read_padded
from inference.pictures import picture
from tools.playground import wire
from utils.log import logger

MOST = 200  # names on the page


@dataclass(frozen=True)
class Samples:
    """The first samples of a split, in the size of the training.

    ignore_id: of pixels without a class in files and on the page, or None.
    are_drawn: whether a picture on the page is the source itself. Otherwise sources are not 8-bit RGB: the page has
        pictures of them, which lack bands and values, and sends them back to name a sample.
    show_channels: those in such pictures, as for `inference.pictures.picture`.
    """

    layout: Layout | None
    preprocessing: Preprocessing
    conditioning: Conditioning
    ignore_id: int | None
    names: list[str]
    are_drawn: bool
    show_channels: Sequence[int] | None
    _shown: dict[bytes, int] = field(default_factory=dict)

    def read(self, index: int) -> Sample:
        """Return sample `index`.

        Raises:
            DataError: there is none, or its files cannot be read.
        """
        if self.layout is None or not 0 <= index < len(self.names):
            raise DataError(f"sample {index}: there are {len(self.names)}")
        return read_padded(self.layout, self.preprocessing, index, keeps_size=False).sample

    def show(self, index: int) -> Sample:
        """Return sample `index` as the page shows it: in place of other sources (3, H, W) uint8; raises as `read`."""
        sample = self.read(index)
        if self.are_drawn:
            return sample
        shown = picture(sample.source, self.show_channels).contiguous()
        self._shown[_digest(shown)] = index
        return replace(sample, source=shown)

    def pack(self, sample: Sample) -> bytes:
        """Return a sample's source and instances as bytes for the page."""
        return wire.pack(sample, self.conditioning, self.ignore_id)

    def unpack(self, body: bytes, width: int, height: int) -> Sample:
        """Return the source of a picture that the page has sent: itself, or the sample that it shows.

        Raises:
            DataError: as `wire.unpack`; or sources cannot be drawn, and the picture is none of a sample.
        """
        drawing = wire.unpack(body, width, height, self.conditioning, self.ignore_id)
        if self.are_drawn:
            return drawing
        index = self._shown.get(_digest(drawing.source))
        if index is None:
            raise DataError(
                "this picture has not the values that the generator takes: choose a sample, or translate files with "
                "python test.py --input FOLDER"
            )
        return replace(self.read(index), name=wire.NAME)

    @property
    def size(self) -> tuple[int, int] | None:
        """Height and width of the first sample; None where there is none that can be read."""
        try:
            height, width = self.read(0).source.shape[-2:]
        except DataError:
            return None
        return height, width


def no_samples(loaded: LoadedGenerator) -> Samples:
    """Return how samples would be read and shown, without any."""
    config, conditioning = loaded.config, loaded.conditioning
    rule, ignore_id = build.build_preprocessing(config), ignored_id(config.data)
    drawn, channels = conditioning.source_is_drawn, config.log.show_channels
    return Samples(None, rule, conditioning, ignore_id, [], are_drawn=drawn, show_channels=channels)


def open_samples(loaded: LoadedGenerator, split: str | None = None) -> Samples:
    """Return the samples of a split; by default of the test split, or none where it is not there, which is logged.

    loaded: a generator with the settings that samples are read with.

    Raises:
        DataError: there is no such split, or it cannot be read.
    """
    config, none = loaded.config, no_samples(loaded)
    if loaded.step is None:  # weights of an original, whose file names no data set
        if split is not None:
            raise DataError(f"--split {split}: the file names no data set. Remove --split.")
        return none
    chosen = split or config.data.test_split
    try:
        check_has_split(config, chosen)
        layout = open_split(config, chosen, needs_targets=False)
    except DataError as error:
        if split is not None:
            raise
        logger.info("samples      none: %s", error)
        return none
    logger.info("samples      of the split %s", chosen)
    return replace(none, layout=layout, names=list(layout.names[:MOST]))


def _digest(image: Tensor) -> bytes:
    return sha256(str(tuple(image.shape)).encode() + image.numpy().tobytes()).digest()
