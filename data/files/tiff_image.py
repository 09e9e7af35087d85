"""Images in TIFF files. The tags of a file say which page holds the image, and its type, colours and orientation.

The package tifffile parses the tags. Together with imagecodecs, it also decodes strips and tiles.
"""

from collections.abc import Iterator
from functools import cached_property
from io import BytesIO
from itertools import islice
from math import prod
from typing import Any, BinaryIO

import numpy as np
from PIL import Image

from data.batch import DataError
from data.files.stored_image import StoredImage, UnfitError, jpeg_size, not_ids, pixel_array, with_few_scans
from data.files.tiff_tags import tifffile_package
from utils.limits import MAX_CHANNELS
from utils.mapped_memory import strips

_MARKS = (b"II*\0", b"MM\0*", b"II+\0", b"MM\0+")
_PHOTOMETRIC, _ORIENTATION, _INK_SET = 262, 274, 332  # tags
_WHITE_IS_ZERO, _BLACK_IS_ZERO, _RGB, _PALETTE, _CMYK, _YCBCR = 0, 1, 2, 3, 5, 6
_STORED_COLORS = {_WHITE_IS_ZERO: 1, _BLACK_IS_ZERO: 1, _RGB: 3, _PALETTE: 1, _CMYK: 4, _YCBCR: 3}
_NAMES = {0: "grey", 1: "grey", 2: "RGB", 3: "palette", 4: "mask", 5: "CMYK", 6: "YCbCr", 8: "CIELab", 9: "ICC Lab"}
_FAX, _JPEG = (2, 3, 4), (6, 7)  # values of Compression
_PREMULTIPLIED, _STRAIGHT = 1, 2
_ALPHA = (_PREMULTIPLIED, _STRAIGHT, 999)  # values of ExtraSamples; some files have 999 instead of _STRAIGHT
_MOST_PAGES = 2 * MAX_CHANNELS  # one page per channel, and the same number of thumbnails and masks
_OTHER_IMAGES = "; to translate such images, train on similar images with data.layout=paired_folders"
_MOST_IN_TILE = 2**24  # maximum pixels of a tile or JPEG, unless the image has more; decoders allocate whole tiles
_MOST_EXTRA = 3  # maximum number of samples per pixel of a photograph in addition to its colours


def is_tiff(file: BinaryIO) -> bool:
    """Return whether an open file begins like a TIFF."""
    begin = file.read(4)
    file.seek(0)
    return begin in _MARKS


class TiffImage(StoredImage):
    """The first image in an open TIFF that is neither a thumbnail nor a mask.

    The methods convert palettes and CMYK to RGB, and inverted grey to normal grey. They scale levels of fewer than 8
    bits to 0 .. 255, and divide premultiplied colours by their alpha.

    name: Name of the file, for messages.

    Raises:
        DataError: The pixels are not supported.
    """

    def __init__(self, file: BinaryIO, name: str) -> None:
        pages = tifffile_package().TiffFile(file).pages
        page = next(_full_pages(pages), None)
        if page is None and _count(pages, 2) == 1 and not pages.first.is_mask and pages.first.subifds is None:
            page = pages.first  # a single page, marked as reduced because it was made from a larger image
        if page is None:
            raise ValueError("it has no page with a full image")
        self._name, self._page, self._bits, self._n_samples = name, page, page.bitspersample, int(page.samplesperpixel)
        orientation = page.tags.valueof(_ORIENTATION)
        self._orientation = orientation if orientation in range(2, 9) else 1
        self._stored_size = int(page.imagelength), int(page.imagewidth)
        self._photometric = photometric = _photometric(page)
        self._n_stored = _STORED_COLORS.get(photometric, self._n_samples)  # samples per pixel, without extra samples
        self._n_colors = 3 if photometric in (_PALETTE, _CMYK) else self._n_stored
        extra = tuple(page.extrasamples) or ((_STRAIGHT,) if photometric == _RGB and self._n_samples == 4 else ())
        n_extra = max(0, self._n_samples - self._n_stored)
        self._extra = (*extra, *(0,) * n_extra)[:n_extra]
        if problem := self._problem():
            raise DataError(f"{name}: {problem}")
        self.alpha = next((self._n_colors + place for place, kind in enumerate(self._extra) if kind in _ALPHA), None)
        is_8_bit, n_alpha = page.dtype.kind in "bu" and self._bits <= 8, int(self.alpha is not None)
        self.is_8_bit_rgb = is_8_bit and len(self._extra) == n_alpha

    def _problem(self) -> str | None:
        """Return the reason why the image is not supported and the remedy, or None if the image is supported."""
        page, dtype, photometric = self._page, self._page.dtype, self._photometric
        name = _NAMES.get(photometric, f"PhotometricInterpretation {photometric}")
        if 0 in page.shaped:
            return "holds no pixel. Create it again."
        if page.is_tiled and page.tilelength * page.tilewidth > max(_MOST_IN_TILE, prod(self._stored_size)):
            return f"has tiles of {page.tilewidth}x{page.tilelength} pixels. Create it again."
        is_other_ink = photometric == _CMYK and page.tags.valueof(_INK_SET, 1) != 1
        is_raw = photometric == _YCBCR and page.compression not in _JPEG
        if photometric not in _STORED_COLORS or is_other_ink or is_raw:
            return f"holds {name} pixels. Save it as grey or RGB."
        if dtype is None or isinstance(self._bits, tuple):
            return f"holds samples of {self._bits} bits of an unknown type. Save integers or floats."
        if dtype.kind not in "buif":
            return f"holds {dtype.name}, expected integers or floats"
        is_plain = photometric in (_BLACK_IS_ZERO, _RGB)
        has_bits = self._bits == 8 or photometric not in (_CMYK, _YCBCR)
        has_palette = photometric != _PALETTE or page.colormap is not None
        if self._n_samples < self._n_stored or not (is_plain or (dtype.kind in "bu" and has_bits and has_palette)):
            return f"holds {name} pixels of {self._n_samples} samples, {dtype.name}. Save it as grey or RGB."
        return None

    @property
    def size(self) -> tuple[int, int]:
        """Height and width of the upright image."""
        height, width = self._stored_size
        return (width, height) if self._orientation >= 5 else (height, width)

    @cached_property
    def n_channels(self) -> int:
        """Number of channels, including transparency. If several pages have equal size and type, each is a channel."""
        return int(self._series.size // prod(self._stored_size)) + self._n_colors - self._n_stored

    @cached_property
    def palette(self) -> bytes:
        """RGB bytes of the palette; empty if the image has no palette."""
        if self._photometric != _PALETTE:
            return b""
        colors = np.asarray(self._page.colormap).T
        return (colors >> 8 if colors.max() > 255 else colors).astype(np.uint8).tobytes()  # some palettes are 8-bit

    @cached_property
    def n_images(self) -> int:
        """Number of images in the file. Masks and thumbnails (pages of at most half the size) do not count."""
        full = _full_pages(self._page.parent.pages)
        return sum(2 * page.imagelength * page.imagewidth > prod(self._stored_size) for page in full)

    @cached_property
    def part(self) -> str:
        """Part of the file that holds the image, such as "page 2 of 5" or "level 1 of 3". Empty for a single image."""
        n_pages, n_levels = _count(self._page.parent.pages, _MOST_PAGES), len(self._series.levels)
        if n_levels > 1:
            return f"level 1 of {n_levels}"
        return f"page {self._page.index + 1} of {n_pages}" if n_pages > 1 else ""

    def rgb(self) -> np.ndarray:
        """Return (H, W, 3) uint8 of the image's page; raise UnfitError unless it is grey or RGB with up to 16 bits."""
        bits, kind = self._bits, self._page.dtype.kind
        if kind not in "bu" or bits > 16:
            values = "floating-point numbers" if kind == "f" else f"{bits}-bit integers"
            sign = "signed " if kind == "i" and bits <= 16 else ""
            raise UnfitError(f"holds {sign}{values}, expected an 8- or 16-bit image{_OTHER_IMAGES}")
        if len(self._extra) > (1 if self._n_colors == 1 else _MOST_EXTRA):
            raise UnfitError(f"has {self._n_samples} channels, expected grey or RGB{_OTHER_IMAGES}")
        pixels = self._pixels(self._page_series)[: self._n_colors].transpose(1, 2, 0)
        if bits > 8:
            pixels = (pixels >> (bits - 8)).astype(np.uint8)
        return np.repeat(pixels, 3, axis=2) if pixels.shape[2] == 1 else np.ascontiguousarray(pixels)

    def ids(self) -> np.ndarray:
        """Return (H, W) int32 of the image's page; raise UnfitError if it does not hold one integer per pixel."""
        page = self._page
        if self._n_samples > 1 or page.dtype.kind not in "bui":
            raise not_ids(f"{page.dtype.name} {_NAMES[self._photometric]}")
        if page.compression in _JPEG:
            raise UnfitError("JPEG changes ids when it compresses; save the map as PNG")
        levels = self._with_black_as_zero(self._samples(self._page_series))[0]
        if levels.dtype.itemsize > 2 and (levels > np.iinfo(np.int32).max).any():
            raise UnfitError(f"holds the id {levels.max()}, expected ids of up to 31 bits")
        return levels.astype(np.int32)

    def pixels(self) -> np.ndarray:
        """Return all channels, (C, H, W)."""
        return self._pixels(self._series)

    @property
    def _page_series(self) -> Any:
        return tifffile_package().TiffPageSeries([self._page])

    @cached_property
    def _series(self) -> Any:
        """The pages of the image: one page, or several pages with one channel each."""
        if _count(self._page.parent.pages, _MOST_PAGES + 1) > _MOST_PAGES:  # parsing more pages takes long
            raise DataError(f"{self._name}: has more than {_MOST_PAGES} pages. Save only the image.")
        all_series = self._page.parent.series
        return next((each for each in all_series if each.keyframe.offset == self._page.offset), self._page_series)

    def _pixels(self, series: Any) -> np.ndarray:
        """Return the converted pixels of a series of pages, (C, H, W), turned upright."""
        samples, n_added = self._samples(series), self._n_colors - self._n_stored
        is_converted = self._photometric == _WHITE_IS_ZERO or n_added or self._bits < 8
        if not (is_converted or self._photometric == _CMYK or _PREMULTIPLIED in self._extra):
            return samples
        if n_added and len(series.pages) > 1:
            raise DataError(f"{self._name}: has {len(series.pages)} colour pages, expected one page.")
        dtype = np.dtype(np.uint8) if n_added or self._bits < 8 else samples.dtype
        pixels = pixel_array(self._name, (len(samples) + n_added, *self.size), dtype)
        for rows in strips(*self.size):
            pixels[:, rows] = self._converted(samples[:, rows])
        return pixels

    def _with_black_as_zero(self, samples: np.ndarray) -> np.ndarray:
        """Return samples, (C, h, W), with 0 as black. The samples of several pages are concatenated."""
        if self._photometric != _WHITE_IS_ZERO:
            return samples
        levels = samples.copy()
        levels[:: self._n_samples] ^= levels.dtype.type(2**self._bits - 1)  # alpha is not inverted
        return levels

    def _converted(self, samples: np.ndarray) -> np.ndarray:
        """Convert stored samples, (C, h, W), to pixels, (C, h, W). TiffImage describes the conversions."""
        scaled = levels = self._with_black_as_zero(samples)
        if self._bits < 8:
            scaled = (levels.astype(np.uint16) * 255 // (2**self._bits - 1)).astype(np.uint8)
        if self._photometric == _PALETTE:
            colors = np.frombuffer(self.palette, np.uint8).reshape(-1, 3)[levels[0].astype(np.intp)]
            scaled = np.concatenate([colors.transpose(2, 0, 1), scaled[1:]])
        elif self._photometric == _CMYK:
            inks = levels[: self._n_stored].transpose(1, 2, 0)
            image = Image.frombytes("CMYK", (inks.shape[1], inks.shape[0]), inks.tobytes()).convert("RGB")
            scaled = np.concatenate([np.asarray(image).transpose(2, 0, 1), scaled[self._n_stored :]])
        if _PREMULTIPLIED in self._extra:
            highest = 1.0 if scaled.dtype.kind == "f" else 2.0 ** max(self._bits, 8) - 1
            alpha = scaled[self._n_colors + self._extra.index(_PREMULTIPLIED)]
            colors = scaled[: self._n_colors] * highest / np.where(alpha > 0, alpha, np.inf)  # rounded like libtiff
            scaled = np.concatenate([colors.clip(None, highest).astype(scaled.dtype), scaled[self._n_colors :]])
        return scaled

    def _samples(self, series: Any) -> np.ndarray:
        """Decode the samples of a series of pages, (C, H, W), turned upright.

        Raises:
            DataError: The series holds more than one image.
        """
        axes, shape = series.get_axes(squeeze=True), series.get_shape(squeeze=True)
        others = [axis for axis in axes if axis not in "YX"]
        if "Y" not in axes or "X" not in axes or len(others) > 1:
            raise DataError(f"{self._name}: has the shape {shape}, expected one image with its channels")
        height, width = self._stored_size
        _check_complete(series)
        if self._page.compression in _JPEG:
            _check_jpegs(series)
        out = pixel_array(self._name, (series.size // (height * width), height, width), series.dtype)
        samples = series.asarray(out=out.reshape(shape), maxworkers=1, buffersize=2**24)
        samples = samples.transpose(*(axes.index(axis) for axis in (*others, "Y", "X"))).reshape(-1, height, width)
        # orientation 6, for example, means that the first stored row is at the right, and the first column at the top
        samples = samples.swapaxes(1, 2) if self._orientation >= 5 else samples
        samples = samples[:, ::-1] if self._orientation in (3, 4, 7, 8) else samples
        return samples[:, :, ::-1] if self._orientation in (2, 3, 6, 7) else samples


def _photometric(page: Any) -> int:
    """Return the photometric interpretation of a page. If the tag is missing, assume the same value as libtiff."""
    if _PHOTOMETRIC in page.tags or page.compression in _JPEG:
        return int(page.photometric)
    if page.compression in _FAX:
        return _WHITE_IS_ZERO
    return _RGB if page.samplesperpixel == 3 else _BLACK_IS_ZERO


def _full_pages(pages: Any) -> Iterator[Any]:
    """Yield the pages that are neither reduced images nor masks, among the first _MOST_PAGES pages."""
    return (page for page in islice(pages, _MOST_PAGES) if not page.is_reduced and not page.is_mask)


def _count(pages: Any, most: int) -> int:
    """Return the number of pages of a file, but at most `most`. Further pages are not parsed."""
    return sum(1 for _ in islice(pages, most))


def _check_complete(series: Any) -> None:
    """Raise ValueError if the file has fewer bytes, strips or tiles than its tags promise."""
    first, n_bytes = series.keyframe, series.parent.filehandle.size
    for page in series.pages:
        offsets = page.dataoffsets
        # JPEG decoders do not report missing bytes
        ends = (offset + count for offset, count in zip(offsets, page.databytecounts, strict=False))
        end = offsets[0] + first.nbytes if first.is_contiguous else max(ends, default=0)
        if n_bytes < end:
            raise ValueError(f"it is cut off: it has {n_bytes} of {end} bytes")
        if not first.is_contiguous and len(offsets) < prod(first.chunked):
            raise ValueError(f"it has {len(offsets)} of {prod(first.chunked)} strips or tiles")


def _check_jpegs(series: Any) -> None:
    """Raise ValueError if a strip or tile is a JPEG that needs far more memory or time than the image.

    The decoder uses the size in the JPEG's header, which can differ from the size in the tags.
    """
    most = max(_MOST_IN_TILE, series.keyframe.imagelength * series.keyframe.imagewidth)
    for page in series.pages:
        for content, _ in page.parent.filehandle.read_segments(page.dataoffsets, page.databytecounts):
            if content and prod(jpeg_size(content)) > most:
                raise ValueError("it has a JPEG with more pixels than the image")
            with_few_scans(BytesIO(content or b""))
