"""Rows of a TIFF whose pixels are compressed, or lie in tiles: only the strips or tiles that hold them are decoded."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from data.batch import DataError, LoadingError
from data.files.image_files import COPY_AGAIN

_MAX_SEGMENT_BYTES = 2**28  # of a strip or tile; with larger ones, reading rows would not save memory
_JPEG = (6, 7, 33007, 34892)  # compressions that need the tables of the page


@contextmanager
def tiff_errors(name: str) -> Iterator[None]:
    """Raise DataError for what tifffile raises; name: of the file, for messages."""
    try:
        yield
    except MemoryError as error:
        raise LoadingError(f"{name}: too little memory to read it") from error
    except (DataError, LoadingError):
        raise
    except Exception as error:
        text = str(error).splitlines()[0] if str(error) else type(error).__name__
        if "imagecodecs" in text:
            text = f"its compression needs a package: python -m pip install imagecodecs ({text})"
        raise DataError(f"{name}: cannot be read as TIFF: {text}; {COPY_AGAIN}") from error


@dataclass(frozen=True)
class SegmentedRows:
    """The pages of a series of tifffile, as PixelRows: several pages have one channel each.

    name: of the file, for messages.
    """

    pages: Sequence[Any]
    name: str

    @classmethod
    def of(cls, series: Any, name: str) -> Self | None:
        """Return the rows of a series; None where strips or tiles are too large, or no parts of one image."""
        pages = list(series.pages)
        first = series.keyframe
        n_planes, depth, _, _, n_per_pixel = first.shaped
        are_channels = len(pages) == 1 or n_planes * n_per_pixel == 1
        is_whole = len(pages) * n_planes * n_per_pixel == series.size // (first.imagelength * first.imagewidth)
        segment_width = first.tilewidth if first.is_tiled else first.imagewidth
        segment_bytes = _length(first) * segment_width * n_per_pixel * first.dtype.itemsize
        is_fit = depth == 1 and are_channels and is_whole and None not in pages
        return cls(pages, name) if is_fit and segment_bytes <= _MAX_SEGMENT_BYTES else None

    @property
    def shape(self) -> tuple[int, int, int]:
        """See PixelRows."""
        n_planes, _, height, width, n_per_pixel = self.pages[0].keyframe.shaped
        return len(self.pages) * n_planes * n_per_pixel, height, width

    @property
    def dtype(self) -> np.dtype:
        """See PixelRows."""
        dtype: np.dtype = self.pages[0].keyframe.dtype
        return dtype

    def read(self, top: int, bottom: int) -> np.ndarray:
        """See PixelRows."""
        n_channels, _, width = self.shape
        rows = np.full((n_channels, bottom - top, width), self.pages[0].keyframe.nodata, self.dtype)
        with tiff_errors(self.name):
            for number, page in enumerate(self.pages):
                for segment, channel, row, column in _segments(page, top, bottom):
                    begin, end = max(row, top), min(row + len(segment), bottom)
                    part = segment[begin - row : end - row, : width - column].transpose(2, 0, 1)
                    channels = slice(number + channel, number + channel + len(part))
                    rows[channels, begin - top : end - top, column : column + part.shape[2]] = part
        return rows


def _length(page: Any) -> int:
    """Return the rows of a strip or tile."""
    length: int = page.tilelength if page.is_tiled else min(page.rowsperstrip, page.imagelength)
    return length


def _segments(page: Any, top: int, bottom: int) -> Iterator[tuple[np.ndarray, int, int, int]]:
    """Yield the strips or tiles of a page that hold some rows, (h, w, C), with their first channel, row and column.

    Those that a file leaves out, since they hold no data, are left out.
    """
    keyframe = page.keyframe
    n_planes, _, height, width, _ = keyframe.shaped
    length = _length(keyframe)
    across = -(-width // keyframe.tilewidth) if keyframe.is_tiled else 1
    per_plane = -(-height // length) * across
    wanted = range(top // length * across, -(-bottom // length) * across)
    indices = [plane * per_plane + index for plane in range(n_planes) for index in wanted]
    offsets, counts = ([values[index] for index in indices] for values in (page.dataoffsets, page.databytecounts))
    options = {}
    if keyframe.compression in _JPEG:
        options = {"jpegtables": page.jpegtables, "jpegheader": keyframe.jpegheader}
    for data, index in page.parent.filehandle.read_segments(offsets, counts, indices):
        segment, (plane, _, row, column, _), _ = keyframe.decode(data, index, **options)
        if segment is not None:
            yield segment[0], plane, row, column
