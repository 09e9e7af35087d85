"""Sources whose values are not in the unit of the training images."""

from dataclasses import dataclass, field

import numpy as np
import torch
from torch import Tensor

from data.batch import Sample
from data.files.image_files import seen_in
from data.files.tiff_tags import TIFF_SUFFIXES
from data.layout import Layout
from data.value_range import ValueRange
from inference.reading import reduced
from utils.distributed import World
from utils.log import logger
from utils.text import counted, exact

_MUCH_OUTSIDE = 0.5  # share of an image's values
_HIGHEST = 99.9  # percentile that counts as the highest value
_NARROW = 0.01  # share of the range
_TIMES = 6.0  # that the highest values may be smaller or larger: units differ by 10 and more, contrasts by less
_MAX_PIXELS = 2**16  # that the highest values are looked for in


@dataclass
class SourceValues:
    """Finds sources whose values are mostly outside the range that a generator was trained with, or all nearly equal.

    It also finds those whose highest values are several times as high or as low, as in another unit.

    trained: that range; None where sources are 8-bit RGB images or label maps.
    images: the map of a sample that holds them: "source" or "source_images".
    """

    trained: ValueRange | None
    images: str = "source"
    _n_samples: int = 0
    _odd: dict[str, tuple[str, str]] = field(default_factory=dict)

    def add(self, sample: Sample) -> None:
        """Compare the values of a source with the range."""
        if self.trained is None:
            return
        self._n_samples += 1
        image = reduced(getattr(sample, self.images))
        seen = self.trained.to_float(image[None])
        width = float(seen.amax() - seen.amin()) / 2
        fits = width >= _NARROW and self.trained.outside(image) <= _MUCH_OUTSIDE
        if not fits or not 1 / _TIMES <= _relative_height(image, self.trained) <= _TIMES:
            low, high = image.float().aminmax()
            self._odd[sample.name] = (exact(low.numpy()), exact(high.numpy()))

    def warn(self, world: World) -> None:
        """Report the sources of all processes that do not fit, in one line."""
        gathered = world.gather((self._odd, self._n_samples))
        odd = {name: values for of_process, _ in gathered for name, values in of_process.items()}
        if self.trained is None or not odd or not world.is_main:
            return
        name, n_samples = min(odd), sum(number for _, number in gathered)
        trained = f"{exact(min(self.trained.low))} to {exact(max(self.trained.high))}"
        text = (
            "%d of %d sources do not fit the values of the training, %s, such as %s with %s to %s: store them in the "
            "same unit, or set data.source_range=[LOW,HIGH]"
        )
        logger.warning(text, len(odd), n_samples, trained, name, *odd[name])


def _relative_height(image: Tensor, trained: ValueRange) -> float:
    """Return the highest absolute values of an image, in those of the training; of the channels, the largest ratio."""
    pixels = image.flatten(1)[:, :: -(-image[0].numel() // _MAX_PIXELS)].float().abs()
    bounds = torch.tensor([trained.low, trained.high]).abs().amax(dim=0).numpy()
    return float((np.percentile(pixels.numpy(), _HIGHEST, axis=1) / bounds).max())


def report_parts(layout: Layout) -> None:
    """Report which page or level of TIFF files is read as a source, if they have several."""
    pages, levels = dict[str, str](), dict[str, str]()
    sources = (file for index in range(len(layout)) for file in list(layout.provenance(index).files.values())[:1])
    for file in (file for file in sources if file.suffix.lower() in TIFF_SUFFIXES):
        part, n_images = seen_in(file, lambda image: (image.part, image.n_images), otherwise=("", 1))
        if part.startswith("level"):
            levels[str(file)] = part
        elif n_images > 1:
            pages[str(file)] = part
    if pages:
        text = "%s of several images or bands, of which one is translated, such as %s of %s: save it as RGB"
        logger.warning(text, counted(len(pages), "file"), next(iter(pages.values())), next(iter(pages)))
    if levels:
        text = "pyramids     %s, of which the full resolution is translated, such as %s of %s"
        logger.info(text, counted(len(levels), "file"), next(iter(levels.values())), next(iter(levels)))
