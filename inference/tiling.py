"""Compute a network tile by tile for an image that is too large for the memory.

The result is the same as for the full image. Intermediate tensors are stored in temporary files.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain, pairwise
from pathlib import Path
from typing import Self

import numpy as np
import torch
from torch import Tensor, nn

from inference.segments import IMAGE, Segment, cut_at_norms
from utils.mapped_memory import mapped_tensor


@dataclass(frozen=True)
class Window:
    """A rectangle of an image, in pixels. `bottom` and `right` are exclusive."""

    top: int
    bottom: int
    left: int
    right: int

    def grown(self, by: int, within: Self) -> Self:
        """Return the window, enlarged by `by` pixels on each side and clipped to `within`."""
        return type(self)(
            max(self.top - by, within.top),
            min(self.bottom + by, within.bottom),
            max(self.left - by, within.left),
            min(self.right + by, within.right),
        )

    def at(self, stride: float) -> Self:
        """Return the window with bounds divided by `stride`. The bounds must be multiples of `stride`."""
        return type(self)(*(int(side // stride) for side in (self.top, self.bottom, self.left, self.right)))

    def seen_from(self, other: Self) -> Self:
        """Return the window in coordinates relative to the top left corner of `other`."""
        top, left = other.top, other.left
        return type(self)(self.top - top, self.bottom - top, self.left - left, self.right - left)

    def cut(self, image: Tensor) -> Tensor:
        """Return the part of a (..., H, W) image inside the window."""
        return image[..., self.top : self.bottom, self.left : self.right]


Read = Callable[[Window], Tensor]
"""Returns the part (1, C, h, w) of a tensor inside a window."""


class TiledNetwork:
    """A convolutional network that is computed for a large image with the memory for one tile.

    Instance norm needs the statistics of the full image. The network is therefore cut at its norms into segments.
    Each segment is computed for all tiles before the next segment starts. A tile includes the neighbouring pixels that
    the segment's convolutions need. The result differs from the result for the full image only by rounding. The
    network is also cut at batch norms, because each cut reduces the number of neighbouring pixels.

    tile: Side of a tile. `tile`, `overlap` and `at_once` count pixels of the image or output, whichever is larger.
    size_multiple, min_size: Divisor and minimum of the sides of an image, in pixels of the image.
    scale: Height of the output divided by the height of the image, a power of 2.
    overlap: Number of pixels that enlarge a tile on each side. Enlarged tiles are called windows. Each window
        has its own statistics. Windows are blended linearly, in one pass without temporary files. None: no windows.
    folder: Folder of the temporary files.

    n_segments: Number of passes over the tiles.
    is_windowed: Whether `overlap` is set. at_once: Longest side of an image that is computed in one piece.
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
        self._segments = cut_at_norms(network, image_stride=self._image_stride, is_windowed=self.is_windowed)
        self.n_segments = len(self._segments)
        self._overlap = -(-(overlap or 0) // size_multiple) * size_multiple
        # `_pieces` can return tiles of half this length, and windows must not be shorter than `min_size`
        least = 2 * min_size if self.is_windowed else size_multiple
        self.tile = max(tile // size_multiple * size_multiple, least)
        self.at_once = self.tile + 2 * self._overlap

    @torch.inference_mode()
    def parts(self, read: Read, height: int, width: int) -> Iterator[tuple[Window, Tensor]]:
        """Yield the output in parts (1, C, h, w) float32 on the CPU, each with its window in the output.

        read: Function that returns the network's input inside a window, in pixels of the input.
        height, width: Sides of the input.
        """
        height, width = height * self._image_stride, width * self._image_stride
        assert height % self._multiple == width % self._multiple == 0, (height, width)
        whole, readers = Window(0, height, 0, width), {IMAGE: read}
        *segments, last = self._segments
        for number, segment in enumerate(segments):
            readers |= self._pass(segment, readers, whole)
            later = {name for segment in self._segments[number + 1 :] for name in segment.reads}
            readers = {name: read for name, read in readers.items() if name in later}
        if self.is_windowed:
            yield from self._blended_pass(last, readers, whole)
            return
        (stride,) = last.writes.values()
        for tile in chain.from_iterable(self._rows_of_tiles(whole)):
            (part,) = _tile_of(last, tile, readers, whole).values()
            yield tile.at(stride), part.float().cpu()

    def _pass(self, segment: Segment, readers: Mapping[str, Read], whole: Window) -> dict[str, Read]:
        """Compute a segment tile by tile, and set the statistics of `segment.norms`. Return a reader of each output."""
        for norm in chain.from_iterable(segment.norms.values()):
            norm.reset()
        kept: dict[str, Tensor] = {}
        made: dict[str, Read] = {}
        for tile in chain.from_iterable(self._rows_of_tiles(whole)):
            for name, part in _tile_of(segment, tile, readers, whole).items():
                for norm in segment.norms[name]:
                    norm.add(part)
                sides = whole.at(stride := segment.writes[name])
                if name not in kept:
                    # store all channels of a pixel together, so that a window is read from few places
                    shape = (sides.bottom, sides.right, part.shape[1])
                    kept[name] = mapped_tensor(self.folder, shape, part.dtype).permute(2, 0, 1)[None]
                    made[name] = partial(_read_kept, kept[name], part.device)
                tile.at(stride).cut(kept[name]).copy_(part)
        return made

    def _blended_pass(
        self, segment: Segment, readers: Mapping[str, Read], whole: Window
    ) -> Iterator[tuple[Window, Tensor]]:
        """Compute the only segment, one row of tiles at a time. Yield pixel rows once no later tile overlaps them."""
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
                yield Window(top, next_top, 0, band.right), sums[:, :, :n_done] / weights[:n_done]
            sums, weights = sums[:, :, n_done:], weights[n_done:]

    def _rows_of_tiles(self, whole: Window) -> Iterator[list[Window]]:
        for top, bottom in _pieces(whole.bottom, self.tile, self._multiple):
            yield [Window(top, bottom, *ends) for ends in _pieces(whole.right, self.tile, self._multiple)]


def has_instance_norm(network: nn.Module) -> bool:
    """Return whether a network has instance norm."""
    return any(isinstance(module, nn.InstanceNorm2d) for module in network.modules())


def _read_kept(kept: Tensor, device: torch.device, window: Window) -> Tensor:
    return window.cut(kept).to(device).contiguous()


def _outputs(segment: Segment, window: Window, readers: Mapping[str, Read]) -> tuple[Tensor, ...]:
    inputs = (readers[name](window.at(stride)) for name, stride in segment.reads.items())
    return segment.network(*inputs)


def _tile_of(segment: Segment, tile: Window, readers: Mapping[str, Read], whole: Window) -> dict[str, Tensor]:
    """Return the tensors that a segment writes inside a tile, by name."""
    window = tile.grown(segment.reach, whole)
    written = zip(segment.writes.items(), _outputs(segment, window, readers), strict=True)
    return {name: tile.seen_from(window).at(stride).cut(made) for (name, stride), made in written}


def _pieces(length: int, longest: int, multiple: int) -> list[tuple[int, int]]:
    """Cut `length` at multiples of `multiple` into the fewest pieces of at most `longest`. Return their bounds."""
    n_pieces = -(-length // longest)
    ends = [length // multiple * number // n_pieces * multiple for number in range(n_pieces + 1)]
    return list(pairwise(ends))


def _ramp(window: Window, tile: Window) -> Tensor:
    """Return positive (h, w) blending weights of a tile's window: 1 inside, and ramps where windows overlap."""

    def side(begin: int, end: int, tile_begin: int, tile_end: int) -> Tensor:
        position = np.arange(begin, end) + 0.5
        rising = np.interp(position, [begin, 2 * tile_begin - begin], [0, 1])
        falling = np.interp(position, [2 * tile_end - end, end], [1, 0])
        return torch.from_numpy(np.minimum(rising, falling)).float()

    down = side(window.top, window.bottom, tile.top, tile.bottom)
    return down[:, None] * side(window.left, window.right, tile.left, tile.right)
