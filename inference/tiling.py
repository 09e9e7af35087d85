"""A network over an image that is too large for the memory: tile by tile, with the result of the full image."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from itertools import chain, pairwise
from pathlib import Path

import torch
from torch import Tensor, nn

from inference.stages import IMAGE, Stage, cut_at_norms
from inference.tensor_file import TensorFile
from inference.window import Window


class TiledNetwork:
    """Computes the output of a convolutional network for a full image in the memory of a tile.

    Instance norm needs the statistics of the full image. The network is therefore cut at its norms into stages, which
    are computed one after the other, each over all tiles. A tile includes as many pixels of its neighbours as the
    stage's convolutions reach, and the tensors between two stages are kept in files. The result differs from that of
    the full image by rounding only. Batch norm needs no cuts, but without them a tile has to include as many pixels of
    its neighbours as the full network reaches, hundreds, which takes longer.

    tile: side of a tile. All lengths here are in pixels of the image or of the output, whichever is larger.
    size_multiple, min_size: the sides of an image must be multiples of `size_multiple`, and at least `min_size`, both
        in pixels of the image.
    scale: sides of the output, in those of the image, a power of 2.
    overlap: without instance norm, compute all layers in one sweep, without files. A tile then includes `overlap`
        pixels of its neighbours, and the results of two tiles are blended linearly where they overlap.
    folder: where the temporary files are.
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
        self._image_stride = max(1, round(scale))
        size_multiple, min_size = size_multiple * self._image_stride, min_size * self._image_stride
        self._multiple = size_multiple
        self._folder = folder
        has_instance_norm = any(isinstance(module, nn.InstanceNorm2d) for module in network.modules())
        in_one_sweep = overlap is not None and not has_instance_norm
        cut = cut_at_norms(network, at_batch_norms=not in_one_sweep, image_stride=self._image_stride)
        self._stages, self._whole = cut.stages, cut.whole
        self._blended: int | None = None
        if overlap is not None and in_one_sweep and overlap < self.reach:
            self._blended = -(-overlap // size_multiple) * size_multiple
        # with no pixels of its neighbours, the smallest of nearly equal tiles must be large enough for an image
        least = size_multiple if self._blended is None else 2 * min_size
        self.tile = max(tile // size_multiple * size_multiple, least)

    @property
    def n_stages(self) -> int:
        """The number of sweeps over the tiles."""
        return len(self._stages)

    @property
    def overlap(self) -> int | None:
        """The pixels of its neighbours that a tile includes, where they are too few for the same result."""
        return self._blended

    @property
    def reach(self) -> int:
        """The pixels of its neighbours that a tile must include in the stage that reaches farthest."""
        return max(stage.reach for stage in self._stages)

    @torch.inference_mode()
    def __call__(self, read: Callable[[Window], Tensor], height: int, width: int) -> Tensor:
        """Return the output (1, C, H, W) float32 on the CPU.

        read: returns the part (1, C, h, w) of the network's input inside a window, which is in its own pixels.
        height, width: of the input.
        """
        height, width = height * self._image_stride, width * self._image_stride
        assert height % self._multiple == width % self._multiple == 0, (height, width)
        whole = Window(0, height, 0, width)
        kept: dict[str, TensorFile] = {}
        *stages, last = self._stages
        with ExitStack() as files:
            for tensor in self._whole:
                made = tensor.stem.map(1, height // tensor.stride, width // tensor.stride)
                for norm in tensor.norms:
                    norm.reset()
                    norm.add(made)
                kept[tensor.name] = files.enter_context(TensorFile(self._folder, width // tensor.stride))
                kept[tensor.name].write(whole.at(tensor.stride), made)
            for number, stage in enumerate(stages):
                for name, stride in stage.writes.items():
                    kept[name] = files.enter_context(TensorFile(self._folder, width // stride))
                for norm in chain.from_iterable(stage.norms.values()):
                    norm.reset()
                for tile in self._tiles(whole):
                    self._compute(stage, tile, read, kept, whole)
                for name in kept.keys() - {name for later in self._stages[number + 1 :] for name in later.reads}:
                    kept.pop(name).close()
            return self._last_sweep(last, read, kept, whole)

    def _compute(
        self, stage: Stage, tile: Window, read: Callable[[Window], Tensor], kept: dict[str, TensorFile], whole: Window
    ) -> None:
        """Compute one tile of a stage, keep its tensors and add them to the statistics of the norms."""
        window = tile.grown(stage.reach, whole)
        made = stage.network(*_inputs(stage, window, read, kept))
        for (name, stride), tensor in zip(stage.writes.items(), made, strict=True):
            part = tile.seen_from(window).at(stride).cut(tensor)
            for norm in stage.norms.get(name, ()):
                norm.add(part)
            kept[name].write(tile.at(stride), part)

    def _last_sweep(
        self, stage: Stage, read: Callable[[Window], Tensor], kept: dict[str, TensorFile], whole: Window
    ) -> Tensor:
        """Compute the last stage over all tiles and return the output."""
        (stride,) = stage.writes.values()
        end = whole.at(stride)
        result, weights = torch.zeros(0), torch.zeros(end.bottom, end.right if self._blended is not None else 0)
        for tile in self._tiles(whole):
            window = tile.grown(stage.reach if self._blended is None else self._blended, whole)
            (made,) = stage.network(*_inputs(stage, window, read, kept))
            made = made.float().cpu()
            of_tile, of_window = tile.at(stride), window.at(stride)
            if not result.numel():
                result = torch.zeros(1, made.shape[1], end.bottom, end.right)
            if self._blended is None:
                of_tile.cut(result).copy_(of_tile.seen_from(of_window).cut(made))
            else:
                weight = _ramp(of_window, of_tile)
                of_window.cut(result).add_(made * weight)
                of_window.cut(weights).add_(weight)
        return result if self._blended is None else result / weights

    def _tiles(self, whole: Window) -> Iterator[Window]:
        for top, bottom in _pieces(whole.bottom, self.tile, self._multiple):
            for left, right in _pieces(whole.right, self.tile, self._multiple):
                yield Window(top, bottom, left, right)


def _inputs(
    stage: Stage, window: Window, read: Callable[[Window], Tensor], kept: dict[str, TensorFile]
) -> list[Tensor]:
    return [
        read(window.at(stride)) if name == IMAGE else kept[name].read(window.at(stride))
        for name, stride in stage.reads.items()
    ]


def _pieces(length: int, longest: int, multiple: int) -> list[tuple[int, int]]:
    """Cut a side at multiples of `multiple` into the fewest nearly equal pieces of at most `longest` pixels."""
    n_pieces = -(-length // longest)
    ends = [length // multiple * number // n_pieces * multiple for number in range(n_pieces + 1)]
    return list(pairwise(ends))


def _ramp(window: Window, tile: Window) -> Tensor:
    """Return (h, w) weights of a tile's window: positive, 1 inside, rising over the pixels shared with neighbours."""

    def side(begin: int, end: int, tile_begin: int, tile_end: int) -> Tensor:
        position = torch.arange(begin, end) + 0.5
        rising = (
            (position - begin) / max(2 * (tile_begin - begin), 1) if begin < tile_begin else torch.ones(len(position))
        )
        falling = (end - position) / max(2 * (end - tile_end), 1) if tile_end < end else torch.ones(len(position))
        return torch.minimum(rising, falling).clamp(max=1)

    down = side(window.top, window.bottom, tile.top, tile.bottom)
    return down[:, None] * side(window.left, window.right, tile.left, tile.right)
