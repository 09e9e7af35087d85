"""A network over an image that is too large for the memory: tile by tile, with the result of the full image.

The tensors between its segments are in temporary files, which are written and read by windows.
"""

import errno
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, closing
from dataclasses import dataclass, replace
from itertools import chain, pairwise
from pathlib import Path
from typing import Self

import numpy as np
import torch
from torch import Tensor, nn

from inference.segments import IMAGE, Segment, cut_at_norms


@dataclass(frozen=True)
class Window:
    """Rows top to bottom - 1 and columns left to right - 1 of an image, in pixels."""

    top: int
    bottom: int
    left: int
    right: int

    def grown(self, by: int, within: Self) -> Self:
        """Return the window with up to `by` more pixels on each side, as far as `within` reaches."""
        return type(self)(
            max(self.top - by, within.top),
            min(self.bottom + by, within.bottom),
            max(self.left - by, within.left),
            min(self.right + by, within.right),
        )

    def at(self, stride: float) -> Self:
        """Return the window, whose sides are multiples of `stride`, in an image whose sides are divided by it."""
        return type(self)(*(int(side // stride) for side in (self.top, self.bottom, self.left, self.right)))

    def seen_from(self, other: Self) -> Self:
        """Return the window in coordinates that start at the top left of `other`."""
        return type(self)(
            self.top - other.top, self.bottom - other.top, self.left - other.left, self.right - other.left
        )

    def cut(self, image: Tensor) -> Tensor:
        """Return the part of a (..., H, W) image inside the window."""
        return image[..., self.top : self.bottom, self.left : self.right]


Readers = Mapping[str, Callable[[Window], Tensor]]
"""Return the parts (1, C, h, w) of tensors inside a window, by the names of the tensors."""


class TensorFile:
    """A (1, C, H, W) tensor in an unnamed temporary file of `folder`, which vanishes with the process at the latest.

    The file holds row after row, channels last. The first part that is written sets channels, dtype and device.
    """

    def __init__(self, folder: Path, width: int) -> None:
        self._folder = folder
        self.file = tempfile.TemporaryFile(dir=folder, buffering=0)  # noqa: SIM115 - closed by its owner
        self._width = width
        self._like = torch.zeros(0)

    def close(self) -> None:
        """Remove the file."""
        self.file.close()

    def write(self, window: Window, part: Tensor) -> None:
        """Write the part (1, C, h, w) of a window."""
        if not self._like.numel():
            self._like = part.new_zeros(part.shape[1])
        rows = part[0].permute(1, 2, 0).flatten(1).contiguous().cpu().view(torch.uint8).numpy()
        try:
            for row, position in zip(rows, self._positions(window), strict=True):
                self._write_at(position, row.data)
        except OSError as error:
            if error.errno == errno.ENOSPC:
                error.strerror = "no space left for the temporary files of --tile"
                error.filename = str(self._folder)
            raise

    def read(self, window: Window) -> Tensor:
        """Read the part (1, C, h, w) of a window."""
        height, width = window.bottom - window.top, window.right - window.left
        part = torch.empty(height, width, len(self._like), dtype=self._like.dtype)
        rows = part.view(torch.uint8).numpy()
        for row, position in zip(rows, self._positions(window), strict=True):
            self._read_at(position, row.data)
        return part.to(self._like.device).permute(2, 0, 1)[None].contiguous()

    def _write_at(self, position: int, left: memoryview) -> None:
        """Write all bytes: a disk that is nearly full takes some of them, and refuses the next call."""
        self.file.seek(position)
        left = left.cast("B")
        while left:
            left = left[self.file.write(left) :]

    def _read_at(self, position: int, left: memoryview) -> None:
        """Read bytes until `left` is full; raise OSError where the file ends before."""
        self.file.seek(position)
        left = left.cast("B")
        while left:
            n_bytes = self.file.readinto(left)
            if not n_bytes:
                raise OSError(
                    errno.EIO, "a temporary file of --tile is shorter than what was written", str(self._folder)
                )
            left = left[n_bytes:]

    def _positions(self, window: Window) -> Iterator[int]:
        """Yield the position of each row of a window in the file, in bytes."""
        n_bytes = len(self._like) * self._like.element_size()
        for row in range(window.top, window.bottom):
            yield (row * self._width + window.left) * n_bytes


class TiledNetwork:
    """Computes the output of a convolutional network for a full image in the memory of a tile.

    Instance norm needs the statistics of the full image. The network is therefore cut at its norms into segments, which
    are computed one after the other, each over all tiles. A tile includes as many pixels of its neighbours as the
    segment's convolutions reach, and the tensors between two segments are kept in files. The result differs from that
    of the full image by rounding only. Batch norm needs no cuts, but without them a tile has to include as many pixels
    of its neighbours as the full network reaches, hundreds, which takes longer.

    tile: side of a tile. All lengths here are in pixels of the image or of the output, whichever is larger.
    size_multiple, min_size: the sides of an image must be multiples of `size_multiple`, and at least `min_size`, both
        in pixels of the image.
    scale: sides of the output, in those of the image, a power of 2.
    overlap: Compute windows: a tile and `overlap` pixels around it are an image with statistics of its own. Windows are
        blended linearly where they overlap. They need one pass, and files only for flips. None: no windows.
    folder: where the temporary files are.

    Attributes: n_segments, the passes over the tiles; is_windowed, whether the network computes windows; at_once, the
    longest side of an image that is computed in one piece.
    """

    def __init__(
        self,
        network: nn.Module,
        *,
        tile: int,
        size_multiple: int,
        min_size: int,
        folder: Path,
        overlap: int | None = None,
        scale: float = 1.0,
    ) -> None:
        self.folder, self.is_windowed = folder, overlap is not None
        self._image_stride = max(1, round(scale))
        size_multiple, min_size = size_multiple * self._image_stride, min_size * self._image_stride
        self._multiple = size_multiple
        self._segments, self._full_image = cut_at_norms(
            network, image_stride=self._image_stride, is_windowed=self.is_windowed
        )
        self.n_segments = len(self._segments)
        self._overlap = -(-(overlap or 0) // size_multiple) * size_multiple
        # without pixels of its neighbours, the smallest of nearly equal tiles must be large enough for an image
        least = 2 * min_size if self.is_windowed else size_multiple
        self.tile = max(tile // size_multiple * size_multiple, least)
        self.at_once = self.tile + 2 * self._overlap

    @torch.inference_mode()
    def bands(self, read: Callable[[Window], Tensor], height: int, width: int) -> Iterator[Tensor]:
        """Yield the output from top to bottom, as parts (1, C, h, W) float32 on the CPU of successive rows.

        read: returns the part (1, C, h, w) of the network's input inside a window, which is in its own pixels.
        height, width: of the input.
        """
        height, width = height * self._image_stride, width * self._image_stride
        assert height % self._multiple == width % self._multiple == 0, (height, width)
        whole = Window(0, height, 0, width)
        readers, files = {IMAGE: read}, dict[str, TensorFile]()
        *segments, last = self._segments
        with ExitStack() as opened:

            def open_file(name: str, stride: int) -> TensorFile:
                files[name] = opened.enter_context(closing(TensorFile(self.folder, width // stride)))
                readers[name] = files[name].read
                return files[name]

            for tensor in self._full_image:
                made = tensor.layer.of_sides(1, height // tensor.stride, width // tensor.stride)
                for norm in tensor.norms:
                    norm.reset()
                    norm.add(made)
                open_file(tensor.name, tensor.stride).write(whole.at(tensor.stride), made)
            for number, segment in enumerate(segments):
                for name, stride in segment.writes.items():
                    open_file(name, stride)
                for norm in chain.from_iterable(segment.norms.values()):
                    norm.reset()
                for tile in chain.from_iterable(self._rows_of_tiles(whole)):
                    _keep(segment, tile, readers, files, whole)
                for name in files.keys() - {name for later in self._segments[number + 1 :] for name in later.reads}:
                    files.pop(name).close()
            yield from (self._blended_pass if self.is_windowed else self._last_pass)(last, readers, whole)

    def _last_pass(self, segment: Segment, readers: Readers, whole: Window) -> Iterator[Tensor]:
        """Compute the last segment, a row of tiles after the other."""
        for row in self._rows_of_tiles(whole):
            parts = [part.float().cpu() for tile in row for part in _tile_of(segment, tile, readers, whole).values()]
            yield torch.cat(parts, dim=3)

    def _blended_pass(self, segment: Segment, readers: Readers, whole: Window) -> Iterator[Tensor]:
        """Compute the only segment, a row of tiles after the other; pixels that the next row overlaps wait for it."""
        (stride,) = segment.writes.values()
        rows = [[(tile, tile.grown(self._overlap, whole)) for tile in row] for row in self._rows_of_tiles(whole)]
        tops = [row[0][1].at(stride).top for row in rows] + [whole.at(stride).bottom]
        sums, weights = torch.zeros(0), torch.zeros(0)
        for row, top, next_top in zip(rows, tops, tops[1:], strict=False):
            before, weights_before = sums, weights
            band = replace(row[0][1], right=whole.right).at(stride)
            weights = torch.zeros(band.bottom - top, band.right)
            for tile, window in row:
                (made,) = _outputs(segment, window, readers)
                if window is row[0][1]:
                    sums = torch.zeros(1, made.shape[1], *weights.shape)
                place = window.at(stride).seen_from(band)
                weight = _ramp(window.at(stride), tile.at(stride))
                place.cut(sums).add_(made.float().cpu() * weight)
                place.cut(weights).add_(weight)
            if before.numel():
                sums[:, :, : before.shape[2]] += before
                weights[: before.shape[2]] += weights_before
            n_done = next_top - top
            if n_done:
                yield sums[:, :, :n_done] / weights[:n_done]
            sums, weights = sums[:, :, n_done:], weights[n_done:]

    def _rows_of_tiles(self, whole: Window) -> Iterator[list[Window]]:
        for top, bottom in _pieces(whole.bottom, self.tile, self._multiple):
            yield [Window(top, bottom, *ends) for ends in _pieces(whole.right, self.tile, self._multiple)]


def has_instance_norm(network: nn.Module) -> bool:
    """Return whether a network normalizes an image by its own statistics."""
    return any(isinstance(module, nn.InstanceNorm2d) for module in network.modules())


def means_of_bands(bands: Iterator[Tensor], mirrored: Iterator[Tensor], folder: Path) -> Iterator[Tensor]:
    """Yield the means of an output and of that of the mirror image, mirrored; both come as from `TiledNetwork.bands`.

    The first output is kept in a temporary file of `folder`, since a network computes one at a time.
    """
    first, top = next(bands), 0
    with closing(TensorFile(folder, first.shape[3])) as kept:
        for band in chain([first], bands):
            kept.write(Window(top, top := top + band.shape[2], 0, band.shape[3]), band)
        top = 0
        for band in mirrored:
            window = Window(top, top := top + band.shape[2], 0, band.shape[3])
            yield (kept.read(window) + band.flip(-1)) / 2


def _outputs(segment: Segment, window: Window, readers: Readers) -> tuple[Tensor, ...]:
    inputs = (readers[name](window.at(stride)) for name, stride in segment.reads.items())
    made: tuple[Tensor, ...] = segment.network(*inputs)
    return made


def _keep(segment: Segment, tile: Window, readers: Readers, files: Mapping[str, TensorFile], whole: Window) -> None:
    """Compute one tile of a segment, keep its tensors and add them to the statistics of the norms."""
    for name, part in _tile_of(segment, tile, readers, whole).items():
        for norm in segment.norms[name]:
            norm.add(part)
        files[name].write(tile.at(segment.writes[name]), part)


def _tile_of(segment: Segment, tile: Window, readers: Readers, whole: Window) -> dict[str, Tensor]:
    """Return what a segment writes inside a tile, by name; it is computed with the pixels around that it reaches."""
    window = tile.grown(segment.reach, whole)
    written = zip(segment.writes.items(), _outputs(segment, window, readers), strict=True)
    return {name: tile.seen_from(window).at(stride).cut(made) for (name, stride), made in written}


def _pieces(length: int, longest: int, multiple: int) -> list[tuple[int, int]]:
    """Cut a side at multiples of `multiple` into the fewest nearly equal pieces of at most `longest` pixels."""
    n_pieces = -(-length // longest)
    ends = [length // multiple * number // n_pieces * multiple for number in range(n_pieces + 1)]
    return list(pairwise(ends))


def _ramp(window: Window, tile: Window) -> Tensor:
    """Return (h, w) weights of a tile's window: positive, 1 inside, rising over the pixels shared with neighbours."""

    def side(begin: int, end: int, tile_begin: int, tile_end: int) -> Tensor:
        position = np.arange(begin, end) + 0.5
        rising = np.interp(position, [begin, 2 * tile_begin - begin], [0, 1])
        falling = np.interp(position, [2 * tile_end - end, end], [1, 0])
        return torch.from_numpy(np.minimum(rising, falling)).float()

    down = side(window.top, window.bottom, tile.top, tile.bottom)
    return down[:, None] * side(window.left, window.right, tile.left, tile.right)
