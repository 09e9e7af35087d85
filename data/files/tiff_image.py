"""The image in a TIFF file. Its tags decide page, type, planes, photometric interpretation and orientation."""

from collections.abc import Iterator
from dataclasses import replace
from functools import cached_property
from importlib.util import find_spec
from itertools import islice
from math import prod
from typing import Any, BinaryIO

import numpy as np

from data.batch import DataError
from data.files.file_errors import UnfitError, not_ids
from data.files.pixel_rows import PixelRows, loaded_rows
from data.files.tiff_colors import (
    BLACK_IS_ZERO,
    FAX,
    JPEG,
    PHOTOMETRIC,
    PREMULTIPLIED,
    RGB,
    STRAIGHT,
    YCBCR,
    TiffColors,
)
from data.files.tiff_samples import decoded_by_pillow, sample_rows, tiff_errors
from data.files.tiff_tags import tifffile_package
from utils.limits import MAX_CHANNELS

_MARKS = (b"II*\0", b"MM\0*", b"II+\0", b"MM\0+")
_ORIENTATION = 274
_LZW, _DEFLATE, _PACK_BITS, _ZSTD = 5, (8, 32946), 32773, 50000
# libtiff, which is part of Pillow, decodes these faster than tifffile with imagecodecs, and needs no other package
_LIBTIFF = (*FAX, _LZW, *JPEG, _PACK_BITS, _ZSTD)
_SMALL = 2**26  # samples; of larger images, rows are read without the others
_MOST_PAGES = 2 * MAX_CHANNELS  # of a file: channels, and thumbnails or masks
_OTHER_IMAGES = "; other images need a run that is trained on them, with data.layout=paired_folders"
_MOST_IN_TILE = 2**24  # pixels; libtiff allocates a tile of a few bytes before it decodes it
_MOST_EXTRA = 3  # samples beyond the colours of a photograph


def is_tiff(file: BinaryIO) -> bool:
    """Return whether an open file begins as a TIFF."""
    begin = file.read(4)
    file.seek(0)
    return begin in _MARKS


def open_tiff(file: BinaryIO, name: str) -> "TiffImage":
    """Open the first image of a TIFF that is neither a thumbnail nor a mask. Only headers are read.

    name: Name of the file, for messages.

    Raises:
        DataError: The file is damaged, or its pixels are not supported.
        LoadingError: tifffile is not installed.
    """
    tifffile = tifffile_package(f"{name}: reading it")
    with tiff_errors(name):
        pages = tifffile.TiffFile(file).pages
        page = next(_full_pages(pages), None)
        if page is None and _count(pages, 2) == 1 and not pages.first.is_mask and pages.first.subifds is None:
            page = pages.first  # saved from a larger file
        if page is None:
            raise ValueError("it has no page with a full image")
        image = TiffImage(file, name, page)
        if problem := image.problem():
            raise DataError(f"{name}: {problem}")
        return image


def _full_pages(pages: Any) -> Iterator[Any]:
    """Yield the first pages that are neither reduced images nor masks."""
    return (page for page in islice(pages, _MOST_PAGES) if not page.is_reduced and not page.is_mask)


def _count(pages: Any, most: int) -> int:
    """Return the number of pages of a file, at most `most`. Only so many are parsed."""
    return sum(1 for _ in islice(pages, most))


class TiffImage:
    """The image in an open TIFF file, upright.

    page: Its page, with the tags as tifffile parses them.
    colors: Meaning of its samples.
    size: Height and width.
    """

    def __init__(self, file: BinaryIO, name: str, page: Any) -> None:
        self._file, self._name, self.page, self.colors = file, name, page, TiffColors.of(page)
        orientation = page.tags.valueof(_ORIENTATION)
        self._orientation = orientation if orientation in range(2, 9) else 1
        height, width = int(page.imagelength), int(page.imagewidth)
        self.size = (width, height) if self._orientation >= 5 else (height, width)

    def problem(self) -> str | None:
        """Return why the image is not supported, with the remedy, or None."""
        if 0 in self.page.shaped:
            return "holds no pixel. Create it again."
        if self.page.is_tiled and self.page.tilelength * self.page.tilewidth > max(_MOST_IN_TILE, prod(self.size)):
            return f"has tiles of {self.page.tilewidth}x{self.page.tilelength} pixels. Create it again."
        if problem := self.colors.problem():
            return problem
        if self.colors.photometric == YCBCR and not self._is_for_libtiff:
            return "holds YCbCr pixels without compression. Save it as RGB."
        return None

    @property
    def is_8_bit_rgb(self) -> bool:
        """Whether it is grey or in colours of up to 8 bits, as photographs are, and has no other channel but alpha."""
        return self.colors.is_photo

    @property
    def n_images(self) -> int:
        """Number of images in the file, without masks, thumbnails and levels of a pyramid, which may be unmarked."""
        with tiff_errors(self._name):
            full = _full_pages(self.page.parent.pages)
            return sum(2 * page.imagelength * page.imagewidth > prod(self.size) for page in full)

    @cached_property
    def _is_for_libtiff(self) -> bool:
        """Whether libtiff is to decode it: Pillow then understands these tags as this module does."""
        page, colors = self.page, self.colors
        bits, photometric, extra = colors.bits, colors.photometric, colors.extra
        compressions = set(_LIBTIFF)
        if photometric == YCBCR or bits in (2, 4):  # tifffile does not convert the first or unpack the others
            compressions |= set(_DEFLATE) if photometric == YCBCR else {1, *_DEFLATE}
        is_single = colors.n_samples == 1 and (bits in (1, 2, 4) or (bits == 16 and photometric == BLACK_IS_ZERO))
        has_known_extra = (
            not extra
            or (extra == (STRAIGHT,) and photometric == BLACK_IS_ZERO and page.planarconfig == 1)
            or (extra in ((STRAIGHT,), (PREMULTIPLIED,)) and photometric == RGB and page.planarconfig == 1)
        )
        is_known = PHOTOMETRIC in page.tags or page.compression in (*FAX, *JPEG)
        is_right = (bits == 8 or is_single) and has_known_extra and is_known and page.sampleformat == 1
        if page.fillorder == 2:  # Pillow knows few such images, and scrambles small samples
            is_right = is_right and bits in (1, 8) and not extra and photometric <= RGB
        if bits in (2, 4):
            is_right = is_right and page.planarconfig == 1  # Pillow takes one separate plane for bytes
        is_small = colors.n_samples * self.size[0] * self.size[1] <= _SMALL or find_spec("imagecodecs") is None
        return page.compression in compressions and is_right and (is_small or photometric == YCBCR)

    def has_transparent_pixels(self) -> bool:
        """Return whether a pixel is not opaque. Decodes the pixels if the image has an alpha channel."""
        if self.colors.alpha is None:
            return False
        alpha = self._pixels(self._page_series()).read_whole()[self.colors.alpha]
        return bool(alpha.min() < (1 if alpha.dtype.kind == "f" else np.iinfo(alpha.dtype).max))

    def rgb(self) -> np.ndarray:
        """Return (H, W, 3) uint8. Only the high byte of 16 bits is kept, and transparency is dropped.

        Raises:
            UnfitError: The image is not grey or RGB of up to 16 bits.
        """
        colors, bits = self.colors, self.colors.bits
        if self._kind not in "bu" or bits > 16:
            kind = "floating-point numbers" if self._kind == "f" else f"{bits}-bit integers"
            sign = "signed " if self._kind == "i" and bits <= 16 else ""
            raise UnfitError(f"holds {sign}{kind}, expected an 8- or 16-bit image{_OTHER_IMAGES}")
        if len(colors.extra) > (1 if colors.n_colors == 1 else _MOST_EXTRA):
            raise UnfitError(f"has {colors.n_samples} channels, expected grey or RGB{_OTHER_IMAGES}")
        pixels = self._pixels(self._page_series()).read_whole()[: colors.n_colors].transpose(1, 2, 0)
        if bits > 8:
            pixels = (pixels >> (bits - 8)).astype(np.uint8)
        return np.repeat(pixels, 3, axis=2) if pixels.shape[2] == 1 else np.ascontiguousarray(pixels)

    def ids(self) -> np.ndarray:
        """Return (H, W) int32: the levels of a grey image, or palette indices.

        Raises:
            UnfitError: The image does not hold one integer per pixel.
        """
        if self.colors.n_samples > 1 or self._kind not in "bui":
            raise not_ids(f"{self.page.dtype.name} {self.colors.name}")
        if self.page.compression in JPEG:
            raise UnfitError("JPEG changes ids when it compresses; save the map as PNG")
        levels = self._levels(self._page_series()).read_whole()[0]
        if levels.dtype.itemsize > 2 and (levels > np.iinfo(np.int32).max).any():
            raise UnfitError(f"holds the id {levels.max()}, expected ids of up to 31 bits")
        return levels.astype(np.int32)

    def rows(self, n_channels: int) -> PixelRows:
        """Return the pixels of all channels, (C, H, W). Several pages of equal size and type have one channel each.

        n_channels: Expected channels. Transparency is dropped if one channel less is expected.
        """
        with tiff_errors(self._name):
            if _count(self.page.parent.pages, _MOST_PAGES + 1) > _MOST_PAGES:  # parsing all takes time and memory
                raise DataError(f"{self._name}: has more than {_MOST_PAGES} pages. Save only the image.")
            series = (series for series in self.page.parent.series if series.keyframe.offset == self.page.offset)
            rows = self._pixels(next(series, None) or self._page_series())
        if (alpha := self.colors.alpha) is None or rows.shape[0] != n_channels + 1:
            return rows
        shape = (n_channels, *rows.shape[1:])
        return replace(rows, shape=shape, read=lambda top, bottom: np.delete(rows.read(top, bottom), alpha, axis=0))

    @property
    def _kind(self) -> str:
        return str(self.page.dtype.kind)

    def _page_series(self) -> Any:
        """Return the series that consists of the page."""
        return tifffile_package(self._name).TiffPageSeries([self.page])

    def _pixels(self, series: Any) -> PixelRows:
        """Return the pixels of a series of pages, (C, H, W)."""
        levels, colors = self._levels(series), self.colors
        n_added, is_divided = colors.n_colors - colors.n_stored, self._is_for_libtiff
        if n_added and len(series.pages) > 1:
            raise DataError(f"{self._name}: has {len(series.pages)} pages of colours, expected one image.")
        return replace(
            levels,
            shape=(levels.shape[0] + n_added, *levels.shape[1:]),
            dtype=colors.pixel_type,
            read=lambda top, bottom: colors.pixels(levels.read(top, bottom), is_divided=is_divided),
        )

    def _levels(self, series: Any) -> PixelRows:
        """Return the levels of a series of pages, (C, H, W)."""
        if self._is_for_libtiff:
            pages = [page.index for page in series.pages]
            shape = (len(pages) * self.colors.n_samples, *self.size)
            return loaded_rows(self._name, shape, self.page.dtype, lambda: self._decoded_by_libtiff(pages))
        stored = sample_rows(self._file, self._name, series)
        levels = replace(stored, read=lambda top, bottom: self.colors.with_black_as_zero(stored.read(top, bottom)))
        if self._orientation == 1:
            return levels
        shape = (stored.shape[0], *self.size)
        return loaded_rows(self._name, shape, stored.dtype, lambda: self._upright(levels.read_whole()))

    def _decoded_by_libtiff(self, pages: list[int]) -> np.ndarray:
        images = [np.atleast_3d(decoded_by_pillow(self._file, self._name, page)) for page in pages]
        if any(image.shape != (*self.size, self.colors.n_samples) for image in images):
            raise DataError(f"{self._name}: holds {images[0].shape} pixels, its tags say otherwise. Create it again.")
        levels = images[0] if len(images) == 1 else np.concatenate(images, axis=2)
        if self.colors.bits in (2, 4) and self.colors.palette is None:  # Pillow has scaled them
            levels = levels // (255 // (2**self.colors.bits - 1))
        return levels.transpose(2, 0, 1)

    def _upright(self, levels: np.ndarray) -> np.ndarray:
        """Return (C, H, W) levels as they are seen. The orientation names the places of the first row and column."""
        levels = levels.swapaxes(1, 2) if self._orientation >= 5 else levels
        levels = levels[:, ::-1] if self._orientation in (3, 4, 7, 8) else levels
        return levels[:, :, ::-1] if self._orientation in (2, 3, 6, 7) else levels
