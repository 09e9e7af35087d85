"""Sources whose values are not in the unit of the training images."""

import numpy as np

from data.batch import DataError, Sample
from data.files.image_files import decode
from data.files.tiff_file import TIFF_SUFFIXES
from data.layout import Layout
from data.value_range import ValueRange
from utils.distributed import World
from utils.log import logger
from utils.text import counted

_MUCH_OUTSIDE = 0.5  # of an image's values
_NARROW = 0.01  # of the range


class SourceValues:
    """Finds sources that lie mostly outside the range that a generator was trained with, or in a small part of it.

    trained: that range; None where sources are 8-bit RGB images or label maps.
    """

    def __init__(self, trained: ValueRange | None) -> None:
        self._trained = trained
        self._n_samples = 0
        self._odd: dict[str, tuple[float, float]] = {}

    def add(self, sample: Sample) -> None:
        """Compare the values of a source with the range."""
        if self._trained is None:
            return
        self._n_samples += 1
        seen = self._trained.to_float(sample.source[None])
        width = float(seen.amax() - seen.amin()) / 2
        if width < _NARROW or self._trained.outside(sample.source) > _MUCH_OUTSIDE:
            values = sample.source.float()
            self._odd[sample.name] = (float(values.amin()), float(values.amax()))

    def warn(self, world: World) -> None:
        """Report the sources of all processes that do not fit, in one line."""
        gathered = world.gather((self._odd, self._n_samples))
        odd = {name: values for of_process, _ in gathered for name, values in of_process.items()}
        if self._trained is None or not odd or not world.is_main:
            return
        name = min(odd)
        low, high = odd[name]
        logger.warning(
            "%d of %d sources do not fit the values of the training, %g to %g, such as %s with %g to %g: store them in "
            "the same unit, or set data.source_range=[LOW,HIGH]",
            len(odd),
            sum(number for _, number in gathered),
            min(self._trained.low),
            max(self._trained.high),
            name,
            low,
            high,
        )


def warn_of_frames(layout: Layout) -> None:
    """Report sources in TIFF files that are read as 8-bit RGB although they hold several images, or bands."""
    several = []
    sources = (path for index in range(len(layout)) for path in list(layout.origin(index).files)[:1])
    for path in (path for path in sources if path.suffix.lower() in TIFF_SUFFIXES):
        try:
            (n_frames,) = decode(path, lambda image: np.array([getattr(image, "n_frames", 1)]))
        except DataError:  # reported when its turn comes
            continue
        if n_frames > 1:
            several.append(f"{path} with {n_frames}")
    if several:
        text = "%s of several images or bands, of which the first is translated, such as %s: save it as RGB"
        logger.warning(text, counted(len(several), "file"), several[0])
