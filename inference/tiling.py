"""A network over an image that is too large for the memory: tile by tile, with the result of the whole image."""

import errno
import os
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from fractions import Fraction
from itertools import chain, pairwise
from pathlib import Path
from typing import Any, Self

import torch
import torch.nn.functional as F
from torch import Tensor, fx, nn

from inference.window import Window

_POINTWISE = {"cat", "add", "iadd", "dropout", "relu", "leaky_relu", "tanh"}  # functions that see one pixel


class WholeImageNorm(nn.Module):
    """Instance norm by the statistics of a whole image that is seen in parts."""

    def __init__(self, eps: float) -> None:
        super().__init__()
        self._eps = eps
        self.reset()

    def reset(self) -> None:
        """Forget the image."""
        self._n_pixels = 0
        self._mean = self._squares = torch.zeros(0, dtype=torch.float64)

    def add(self, part: Tensor) -> None:
        """Take in a part (1, C, h, w) of the image: each pixel once (Chan et al. 1979, equation 2.1)."""
        variance, mean = (x[0].double() for x in torch.var_mean(part.float(), dim=(2, 3), correction=0))
        n_new = part.shape[2] * part.shape[3]
        if self._n_pixels == 0:
            self._mean, self._squares = torch.zeros_like(mean), torch.zeros_like(mean)
        n_all, difference = self._n_pixels + n_new, mean - self._mean
        self._squares += variance * n_new + difference.square() * (self._n_pixels * n_new / n_all)
        self._mean += difference * (n_new / n_all)
        self._n_pixels = n_all

    def forward(self, x: Tensor) -> Tensor:
        """Normalise a part (1, C, h, w)."""
        assert self._n_pixels > 0
        variance = self._squares / self._n_pixels
        return F.batch_norm(x, self._mean.float(), variance.float(), training=False, eps=self._eps)


@dataclass(frozen=True)
class _Stage:
    """What lies between one norm and the next: it can be computed once the whole image's statistics are known.

    network: the tensors it reads -> the tensors it writes, each (1, C, h, w).
    reads, writes: their names, with the strides of the tensors; the image itself has the name IMAGE and stride 1.
    norms: those that need the statistics of what is written, by its name.
    reach: how far away a pixel can matter, in pixels of the image; a multiple of all strides.
    """

    network: nn.Module
    reads: dict[str, int]
    writes: dict[str, int]
    norms: dict[str, list[WholeImageNorm]]
    reach: int


IMAGE = "image"


class TiledNetwork:
    """Computes what a convolutional network makes of a whole image, with the memory that a tile takes.

    Instance norm needs all of an image. So the network is cut at its norms, and computed one stage after the other,
    each over all tiles: a tile sees as much of its neighbours as the stage's convolutions reach, and what lies between
    two stages is kept in files. Each pixel of each layer is computed once, but for the few where tiles meet; the result
    is that of the whole image but for rounding. Batch norm could do without the cuts, but then a tile would have to see
    as much of its neighbours as the whole network reaches, hundreds of pixels, and that takes longer.

    tile: side of a tile, in pixels of the image.
    size_multiple, min_size: what the sides of an image must be multiples of, and the least of them.
    overlap: without instance norm, compute the whole network in one sweep all the same, without files; a tile sees so
        many pixels of its neighbours, and what two tiles make of the pixels that both see is blended linearly.
    folder: where the files are; they vanish with the process.
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
    ) -> None:
        self._multiple = size_multiple
        self._folder = folder
        has_instance_norm = any(isinstance(module, nn.InstanceNorm2d) for module in network.modules())
        in_one_sweep = overlap is not None and not has_instance_norm
        self._stages = _cut(network, at_batch_norms=not in_one_sweep)
        self._blended: int | None = None
        if overlap is not None and in_one_sweep and overlap < self.reach:
            self._blended = -(-overlap // size_multiple) * size_multiple
        # without what lies around, the smallest of nearly equal tiles must do for an image
        least = size_multiple if self._blended is None else 2 * min_size
        self.tile = max(tile // size_multiple * size_multiple, least)

    @property
    def n_stages(self) -> int:
        """How many sweeps over the tiles it takes."""
        return len(self._stages)

    @property
    def reach(self) -> int:
        """How much of its neighbours a tile has to see in the stage that reaches farthest, in pixels."""
        return max(stage.reach for stage in self._stages)

    @torch.inference_mode()
    def __call__(self, read: Callable[[Window], Tensor], height: int, width: int) -> Tensor:
        """(1, C, H, W) float32 on the CPU.

        read: the part (1, C, h, w) of the network's input that lies in a window.
        """
        whole = Window(0, height, 0, width)
        kept: dict[str, _KeptTensor] = {}
        *stages, last = self._stages
        with ExitStack() as files:
            for number, stage in enumerate(stages):
                for name, stride in stage.writes.items():
                    kept[name] = files.enter_context(_KeptTensor(self._folder, whole.at(stride)))
                for norm in chain.from_iterable(stage.norms.values()):
                    norm.reset()
                for tile in self._tiles(whole):
                    self._compute(stage, tile, read, kept, whole)
                for name in kept.keys() - {name for later in self._stages[number + 1 :] for name in later.reads}:
                    kept.pop(name).close()
            return self._last_sweep(last, read, kept, whole)

    def _compute(
        self,
        stage: _Stage,
        tile: Window,
        read: Callable[[Window], Tensor],
        kept: dict[str, "_KeptTensor"],
        whole: Window,
    ) -> None:
        window = tile.grown(stage.reach, whole)
        made = stage.network(*_inputs(stage, window, read, kept))
        for (name, stride), tensor in zip(stage.writes.items(), made, strict=True):
            part = tile.seen_from(window).at(stride).cut(tensor)
            for norm in stage.norms.get(name, ()):
                norm.add(part)
            kept[name].write(tile.at(stride), part)

    def _last_sweep(
        self, stage: _Stage, read: Callable[[Window], Tensor], kept: dict[str, "_KeptTensor"], whole: Window
    ) -> Tensor:
        """The result, from what is kept."""
        result, weights = torch.zeros(0), torch.zeros(whole.bottom, whole.right if self._blended is not None else 0)
        for tile in self._tiles(whole):
            window = tile.grown(stage.reach if self._blended is None else self._blended, whole)
            (made,) = stage.network(*_inputs(stage, window, read, kept))
            made = made.float().cpu()
            if not result.numel():
                result = torch.zeros(1, made.shape[1], whole.bottom, whole.right)
            if self._blended is None:
                tile.cut(result).copy_(tile.seen_from(window).cut(made))
            else:
                weight = _ramp(window, tile)
                window.cut(result).add_(made * weight)
                window.cut(weights).add_(weight)
        return result if self._blended is None else result / weights

    def _tiles(self, whole: Window) -> Iterator[Window]:
        for top, bottom in _pieces(whole.bottom, self.tile, self._multiple):
            for left, right in _pieces(whole.right, self.tile, self._multiple):
                yield Window(top, bottom, left, right)


def _inputs(
    stage: _Stage, window: Window, read: Callable[[Window], Tensor], kept: dict[str, "_KeptTensor"]
) -> list[Tensor]:
    return [
        read(window) if name == IMAGE else kept[name].read(window.at(stride)) for name, stride in stage.reads.items()
    ]


def _pieces(length: int, longest: int, multiple: int) -> list[tuple[int, int]]:
    """A side in as few pieces of at most `longest` as there can be, nearly equal, between multiples of `multiple`."""
    n_pieces = -(-length // longest)
    ends = [length // multiple * number // n_pieces * multiple for number in range(n_pieces + 1)]
    return list(pairwise(ends))


def _ramp(window: Window, tile: Window) -> Tensor:
    """(h, w) weights of a tile's window: above 0, 1 inside, rising over the pixels that its neighbours see too."""

    def side(begin: int, end: int, tile_begin: int, tile_end: int) -> Tensor:
        position = torch.arange(begin, end) + 0.5
        rising = (
            (position - begin) / max(2 * (tile_begin - begin), 1) if begin < tile_begin else torch.ones(len(position))
        )
        falling = (end - position) / max(2 * (end - tile_end), 1) if tile_end < end else torch.ones(len(position))
        return torch.minimum(rising, falling).clamp(max=1)

    down = side(window.top, window.bottom, tile.top, tile.bottom)
    return down[:, None] * side(window.left, window.right, tile.left, tile.right)


class _KeptTensor:
    """A tensor (1, C, H, W) in a file without a name, row by row with the channels last."""

    def __init__(self, folder: Path, whole: Window) -> None:
        self._folder = folder
        self._file = tempfile.TemporaryFile(dir=folder, buffering=0)  # noqa: SIM115 - closed by its owner
        self._width = whole.right
        self._like = torch.zeros(0)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Give the room back."""
        self._file.close()

    def write(self, window: Window, part: Tensor) -> None:
        """Keep the part (1, C, h, w) of the window; the first one tells channels, dtype and device."""
        if not self._like.numel():
            self._like = part.new_zeros(part.shape[1])
        rows = part[0].permute(1, 2, 0).contiguous().cpu().view(torch.uint8).numpy()
        try:
            for row, position in zip(rows, self._positions(window), strict=True):
                os.pwrite(self._file.fileno(), row.data, position)
        except OSError as error:
            if error.errno == errno.ENOSPC:
                error.strerror = "no room for what lies between the stages of the network; choose another --output"
                error.filename = str(self._folder)
            raise

    def read(self, window: Window) -> Tensor:
        """The part (1, C, h, w) of the window, on the device that it was made on."""
        height, width = window.bottom - window.top, window.right - window.left
        part = torch.empty(height, width, len(self._like), dtype=self._like.dtype)
        rows = part.view(torch.uint8).numpy()
        for row, position in zip(rows, self._positions(window), strict=True):
            os.preadv(self._file.fileno(), [row.data], position)
        return part.to(self._like.device).permute(2, 0, 1)[None].contiguous()

    def _positions(self, window: Window) -> Iterator[int]:
        n_bytes = len(self._like) * self._like.element_size()
        for row in range(window.top, window.bottom):
            yield (row * self._width + window.left) * n_bytes


class _Tracer(fx.Tracer):
    """Follows a network down to its layers."""

    def is_leaf_module(self, m: nn.Module, module_qualified_name: str) -> bool:
        return isinstance(m, nn.Conv2d | nn.ConvTranspose2d) or super().is_leaf_module(m, module_qualified_name)


@dataclass
class _Plan:
    """Where each node of a traced network belongs."""

    stage: dict[fx.Node, int] = field(default_factory=dict)
    stride: dict[fx.Node, int] = field(default_factory=dict)
    reach: dict[fx.Node, int] = field(default_factory=dict)
    """In its own stage, in pixels of the image."""


@torch.no_grad()
def _cut(network: nn.Module, *, at_batch_norms: bool) -> list[_Stage]:
    """The stages of a network, which begin at its norms."""
    graph = _Tracer().trace(network)
    traced = fx.GraphModule(network, graph)
    for name, norm in network.named_modules():
        if isinstance(norm, nn.InstanceNorm2d):
            assert not norm.affine, name
            traced.set_submodule(name, WholeImageNorm(norm.eps))
    cut_at = (WholeImageNorm, nn.BatchNorm2d) if at_batch_norms else (WholeImageNorm,)
    plan = _plan(graph, traced, cut_at)
    return [_stage(number, plan, graph, traced) for number in range(max(plan.stage.values()) + 1)]


def _plan(graph: fx.Graph, traced: fx.GraphModule, cut_at: tuple[type[nn.Module], ...]) -> _Plan:
    plan = _Plan()
    for node in graph.nodes:
        if node.op == "output":
            continue
        inputs = node.all_input_nodes
        if not inputs:
            assert node.op == "placeholder", node
            plan.stage[node], plan.stride[node], plan.reach[node] = 0, 1, 0
            continue
        own_reach, resizing = _geometry(node, traced)
        stage = max(plan.stage[i] for i in inputs) + int(_is_layer(node, traced, cut_at))
        stride = plan.stride[inputs[0]]
        earlier = [plan.reach[i] for i in inputs if plan.stage[i] == stage]
        plan.stage[node] = stage
        plan.stride[node] = int(stride * resizing)
        plan.reach[node] = own_reach * stride + max(earlier, default=0)
    return plan


def _is_layer(node: fx.Node, traced: fx.GraphModule, kinds: tuple[type[nn.Module], ...]) -> bool:
    return node.op == "call_module" and isinstance(traced.get_submodule(str(node.target)), kinds)


def _geometry(node: fx.Node, traced: fx.GraphModule) -> tuple[int, Fraction]:
    """How far a layer reaches, in pixels of its input, and by how much it enlarges the stride."""
    if node.op == "call_module":
        return _layer_geometry(traced.get_submodule(str(node.target)))
    name = str(getattr(node.target, "__name__", node.target))
    if name == "avg_pool2d":
        return int(node.kwargs["kernel_size"]) // 2, Fraction(int(node.kwargs["stride"]))  # type: ignore[arg-type]
    if name == "interpolate":
        assert node.kwargs["mode"] == "nearest", node
        return 0, 1 / Fraction(int(node.kwargs["scale_factor"]))  # type: ignore[arg-type]
    assert name in _POINTWISE, f"{name}: how far does it reach?"
    return 0, Fraction(1)


def _layer_geometry(layer: nn.Module) -> tuple[int, Fraction]:
    match layer:
        case nn.Conv2d():
            return (layer.kernel_size[0] - 1) // 2, Fraction(layer.stride[0])
        case nn.ConvTranspose2d():
            return -(-(layer.kernel_size[0] - 1) // (2 * layer.stride[0])), 1 / Fraction(layer.stride[0])
        case nn.Upsample():
            return int(layer.mode != "nearest"), 1 / Fraction(int(layer.scale_factor))  # type: ignore[arg-type]
        # padding is counted with the convolution that follows
        case nn.ReflectionPad2d() | WholeImageNorm() | nn.BatchNorm2d() | nn.Dropout() | nn.Identity():
            return 0, Fraction(1)
        case nn.ReLU() | nn.LeakyReLU() | nn.Tanh():
            return 0, Fraction(1)
    raise AssertionError(f"{type(layer).__name__}: how far does it reach?")


def _stage(number: int, plan: _Plan, graph: fx.Graph, traced: fx.GraphModule) -> _Stage:
    nodes = [node for node in graph.nodes if plan.stage.get(node) == number and node.op != "placeholder"]
    inputs = dict.fromkeys(i for node in nodes for i in node.all_input_nodes if i not in nodes)
    result = next(node for node in graph.nodes if node.op == "output").all_input_nodes
    outputs = [n for n in nodes if n in result or any(plan.stage.get(user, 0) > number for user in n.users)]
    part = fx.Graph()
    copies: dict[fx.Node, fx.Node] = {i: part.placeholder(i.name) for i in inputs}
    for node in nodes:
        copies[node] = part.node_copy(node, copies.__getitem__)
    part.output(tuple(copies[node] for node in outputs))

    coarsest = max(plan.stride[node] for node in (*inputs, *nodes))
    reach = max(plan.reach[node] for node in nodes)
    return _Stage(
        network=fx.GraphModule(traced, part),
        reads={IMAGE if i.op == "placeholder" else i.name: plan.stride[i] for i in inputs},
        writes={node.name: plan.stride[node] for node in outputs},
        norms={node.name: _norms_of(node, traced) for node in outputs},
        reach=-(-reach // coarsest) * coarsest,
    )


def _norms_of(node: fx.Node, traced: fx.GraphModule) -> list[Any]:
    return [traced.get_submodule(str(user.target)) for user in node.users if _is_layer(user, traced, (WholeImageNorm,))]
