"""The files of translated images: as 8-bit RGB, or in the type and format of the targets; large ones reduced."""

import math
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from torch import Tensor

from configs.data_facts import DataFacts
from data.batch import Sample
from data.files.image_files import read_rgb, write_png
from data.files.pixels import StoredForm, read_stored
from data.files.tiff_tags import file_tags
from data.files.tiff_writer import write_tiff
from data.folder import File
from inference.no_data import NoData
from utils.files import replacing
from utils.pictures import means_of_squares

_PIXELS = 2**21  # a reduced image has up to four times as many


def reduced(image: Tensor, *, is_ids: bool = False) -> Tensor:
    """Return a (C, H, W) image, or map of ids, reduced to a few million pixels."""
    side = max(1, math.isqrt(math.prod(image.shape[1:]) // _PIXELS))
    return image[:, ::side, ::side] if is_ids else means_of_squares(image, side) if side > 1 else image


def reduced_sample(sample: Sample, *, is_ids: bool) -> Sample:
    """Return the sources of a sample, reduced; is_ids: Whether `sample.source` is a label map."""
    images = None if sample.source_images is None else reduced(sample.source_images)
    return Sample(sample.name, source=reduced(sample.source, is_ids=is_ids), source_images=images)


@dataclass(frozen=True)
class ImageStore:
    """Writes and reads translated images.

    form: Form of images that are not 8-bit RGB; None for 8-bit RGB.
    suffix: Suffix of the files.
    follows_sources: Whether a source that is a TIFF with tags becomes a TIFF.
    scale: Sides of a translated image divided by the sides of its source.
    """

    form: StoredForm | None = None
    suffix: str = ".png"
    follows_sources: bool = False
    scale: float = 1.0

    def suffix_of(self, source: File | None) -> str:
        """Return the suffix of the translation of a source; None for a source without a file."""
        return ".tif" if self.follows_sources and file_tags(source) else self.suffix

    def write(self, path: Path, image: Tensor, source: File | None, no_data: NoData | None = None) -> None:
        """Write a (C, H, W) image and create its folders; the file appears under its name when it is complete.

        A TIFF gets the tags of its source.

        no_data: Pixels without data, which get the value for no data.
        """
        image = no_data.marked(image) if no_data else image
        with replacing(path) as unfinished:
            match path.suffix:
                case ".png":
                    write_png(unfinished, image)
                case ".npy":
                    with unfinished.open("wb") as file:
                        np.save(file, image.numpy())
                case _:
                    write_tiff(unfinished, image, source, self.scale, no_data.value if no_data else None)

    def read(self, path: Path) -> Tensor:
        """Read a translated image as it was written, with NaN as 0.

        Raises:
            DataError: the file is damaged, or has another form.
        """
        if self.form is None:
            return read_rgb(path)
        image = read_stored(path, replace(self.form, allows_missing=True))
        return image.nan_to_num_() if image.is_floating_point() else image


def image_store(facts: DataFacts) -> ImageStore:
    """Return the files of images translated into the targets of a data set."""
    form, files, scale = facts.storage.get("target"), facts.target_files, facts.conditioning.target_scale
    if files is None:
        return ImageStore(follows_sources=True, scale=scale)
    if form is None:
        form = StoredForm(3, "data.target_channels", is_8_bit=True)
    return ImageStore(form, "." + files.partition(".")[2], scale=scale)
