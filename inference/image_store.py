"""The files of translated images: as 8-bit RGB, or in the type and format of the targets; large ones reduced."""

import math
from dataclasses import dataclass, replace
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import Tensor

from configs.data_facts import DataFacts
from data.files.image_files import read_rgb, write_png
from data.files.pixel_rows import Bands, write_npy_rows, write_png_rows
from data.files.pixels import ROW_SUFFIXES, StoredForm, StoredRows, read_stored, stored_rows
from data.files.tiff_writer import source_tags, write_tiff
from data.store import File
from inference.no_data import NoData
from utils.atomic_file import replacing

_PIXELS = 2**21  # of a reduced image, at most four times as many
_ROWS = 256


class Reduction:
    """The means of squares of pixels of an image that comes in bands from top to bottom.

    height, width: of the image.
    """

    def __init__(self, height: int, width: int) -> None:
        self._side = max(1, math.isqrt(height * width // _PIXELS))
        self._shape = -(-height // self._side), -(-width // self._side)
        self._sums, self._n_pixels = torch.zeros(0), torch.zeros(self._shape)
        self._top = 0
        self._dtype = torch.uint8

    def add(self, band: Tensor) -> None:
        """Add the next rows, (C, h, W)."""
        if not self._sums.numel():
            self._sums, self._dtype = torch.zeros(len(band), *self._shape), band.dtype
        rows = torch.arange(self._top, self._top + band.shape[1]) // self._side
        self._sums.index_add_(1, rows, self._sums_of_columns(band.float()))
        self._n_pixels.index_add_(0, rows, self._sums_of_columns(torch.ones(band.shape[1:])))
        self._top += band.shape[1]

    def _sums_of_columns(self, rows: Tensor) -> Tensor:
        return F.pad(rows, (0, -rows.shape[-1] % self._side)).unflatten(-1, (-1, self._side)).sum(-1)

    def image(self) -> Tensor:
        """Return the reduced image, (C, h, w) of the type of the bands."""
        means = self._sums / self._n_pixels
        return means if self._dtype.is_floating_point else means.round().to(self._dtype)


def reduced_rows(rows: StoredRows) -> Tensor:
    """Read an image, and return it reduced.

    Raises:
        DataError: the file is damaged, or holds values that cannot be used.
    """
    reduction = Reduction(rows.height, rows.width)
    for top in range(0, rows.height, _ROWS):
        reduction.add(rows.read(top, min(top + _ROWS, rows.height)))
    return reduction.image()


def reduced(image: Tensor, *, is_ids: bool = False) -> Tensor:
    """Return a (C, H, W) image, or map of ids, reduced."""
    height, width = image.shape[-2:]
    if is_ids:
        side = max(1, math.isqrt(height * width // _PIXELS))
        return image[:, ::side, ::side]
    return reduced_rows(StoredRows(height, width, lambda top, bottom: image[:, top:bottom]))


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
        """Return the suffix of the translation of a source; None for a source without a file.

        Raises:
            LoadingError: the source is a TIFF, and tifffile is not installed.
        """
        return ".tif" if self.follows_sources and source_tags(source) else self.suffix

    def write(self, path: Path, image: Tensor, source: File | None, no_data: NoData | None = None) -> None:
        """Write a (C, H, W) image and create its folders; a TIFF gets the tags of its source.

        no_data: Pixels without data, which get the value for no data.
        """
        image = no_data.marked(image, 0) if no_data else image
        if path.suffix == ".png" and image.dtype == torch.uint8:
            write_png(path, image)
        else:
            self.write_bands(path, Bands.of(image.numpy()), source, no_data.value if no_data else None)

    def write_bands(self, path: Path, image: Bands, source: File | None, no_data: float | None = None) -> None:
        """Write an image that comes in bands; the file appears under its name when it is complete.

        no_data: Value of its pixels without data, which a TIFF names, or None.
        """
        with replacing(path) as unfinished:
            match path.suffix:
                case ".png":
                    write_png_rows(unfinished, image)
                case ".npy":
                    write_npy_rows(unfinished, image)
                case _:
                    write_tiff(unfinished, image, source, self.scale, no_data)

    def read(self, path: Path) -> Tensor:
        """Read a translated image as it was written, with NaN as 0.

        Raises:
            DataError: the file is damaged, or has another form.
        """
        return read_rgb(path) if self.form is None else _without_nan(read_stored(path, self._form))

    @property
    def _form(self) -> StoredForm:
        assert self.form is not None
        return replace(self.form, allows_missing=True)

    def read_reduced(self, path: Path) -> tuple[Tensor, tuple[int, int]]:
        """Read a translated image, row by row where its format can be, and return it reduced, and its width and height.

        Raises:
            DataError: as `read`, or the file is too large to be read at once.
        """
        if self.form is None or path.suffix not in ROW_SUFFIXES:
            image = self.read(path)
            return reduced(image), (image.shape[2], image.shape[1])
        with stored_rows(path, self._form) as rows:
            return _without_nan(reduced_rows(rows)), (rows.width, rows.height)


def _without_nan(image: Tensor) -> Tensor:
    return image.nan_to_num() if image.is_floating_point() else image


def image_store(facts: DataFacts) -> ImageStore:
    """Return the files of images translated into the targets of a data set."""
    form, files, scale = facts.storage.get("target"), facts.target_files, facts.conditioning.target_scale
    if files is None:
        return ImageStore(follows_sources=True, scale=scale)
    if form is None:
        form = StoredForm(3, "data.target_channels", is_8_bit=True)
    return ImageStore(form, "." + files.partition(".")[2], scale=scale)
