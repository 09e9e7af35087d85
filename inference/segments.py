"""Cut a convolutional network into segments that can be computed in tiles. Cuts are at normalization layers (norms)."""

from dataclasses import dataclass
from fractions import Fraction

import torch
import torch.nn.functional as F
from torch import Tensor, fx, nn

from models.layers import InTiles
from utils.errors import UserError

IMAGE = "image"
_POINTWISE = {  # functions that treat each pixel separately
    *("cat", "add", "iadd", "mul", "dropout", "relu", "leaky_relu", "tanh"),
    *("silu", "gelu", "sigmoid", "mish"),
    *("sub", "truediv", "square", "sqrt", "float"),
}
_POINTWISE_LAYERS = (nn.ReLU, nn.LeakyReLU, nn.Tanh, nn.SiLU, nn.GELU, nn.PReLU, nn.Sigmoid, nn.Mish)


class NotInTilesError(UserError):
    """A network cannot be computed tile by tile."""

    def __init__(self, network: nn.Module, reason: str) -> None:
        super().__init__(f"--tile: {type(network).__name__} cannot be computed in tiles: {reason}. Omit --tile.")


class WholeImageNorm(nn.Module):
    """Instance norm whose statistics are accumulated over parts of an image."""

    def __init__(self, eps: float) -> None:
        super().__init__()
        self._eps = eps
        self.reset()

    def reset(self) -> None:
        """Start a new image."""
        self._n_pixels = 0
        self._mean = self._squares = torch.zeros((), dtype=torch.float64)

    def add(self, part: Tensor) -> None:
        """Add a part (1, C, h, w) to the statistics (Chan et al. 1979, equation 2.1). Parts must not overlap."""
        variance, mean = (x[0].double() for x in torch.var_mean(part.float(), dim=(2, 3), correction=0))
        n_new = part.shape[2] * part.shape[3]
        n_all, difference = self._n_pixels + n_new, mean - self._mean
        squares = variance * n_new + difference.square() * (self._n_pixels * n_new / n_all)
        self._squares, self._mean = self._squares + squares, self._mean + difference * (n_new / n_all)
        self._n_pixels = n_all

    def forward(self, x: Tensor) -> Tensor:
        """Normalize a part (1, C, h, w)."""
        assert self._n_pixels > 0
        variance = self._squares / self._n_pixels
        return F.batch_norm(x, self._mean.float(), variance.float(), training=False, eps=self._eps)


@dataclass(frozen=True)
class Segment:
    """The layers from one norm up to the next. They can be computed when the statistics of the first norm are known.

    network: Network that maps the tensors of `reads` to the tensors of `writes`, each (1, C, h, w).
    reads, writes: Stride of each input and output tensor by name. IMAGE is the name of the image. Strides and `reach`
        are in pixels of the image, or in pixels of the network's output if the output is larger.
    norms: Norms of later segments that normalize a tensor of `writes`, by name of the tensor.
    reach: Largest distance between an output pixel and the input pixels that affect it, a multiple of all strides.
    """

    network: nn.Module
    reads: dict[str, int]
    writes: dict[str, int]
    norms: dict[str, list[WholeImageNorm]]
    reach: int


@torch.no_grad()
def cut_at_norms(network: nn.Module, *, image_stride: int = 1, is_windowed: bool = False) -> list[Segment]:
    """Cut a network into segments that start with a norm.

    image_stride: Height of the output divided by the height of the image, at least 1.
    is_windowed: Whether each tile has its own statistics. The network is then a single segment.

    Raises:
        NotInTilesError: A layer may need more of the image than a tile.
    """
    # batch norms need no statistics of the image, but more cuts reduce the reach of each segment
    cut_at = () if is_windowed else (WholeImageNorm, nn.BatchNorm2d)
    traced = _Traced(network, cut_at, image_stride, is_windowed=is_windowed)
    return [traced.cut(number) for number in range(max(traced.segments.values()) + 1)]


class _Tracer(fx.Tracer):
    """A tracer that does not look inside layers whose `InTiles` is known. Each such layer becomes one node."""

    def is_leaf_module(self, m: nn.Module, module_qualified_name: str) -> bool:
        return _in_tiles(m) is not None or super().is_leaf_module(m, module_qualified_name)


class _Traced:
    """A network as a graph of layers. segments: Segment number of each node. strides: Stride of each node."""

    def __init__(
        self, network: nn.Module, cut_at: tuple[type[nn.Module], ...], image_stride: int, *, is_windowed: bool
    ) -> None:
        self._network = network
        try:
            self.graph = _Tracer().trace(network)
            self._module = fx.GraphModule(network, self.graph)
        except (TypeError, ValueError, RuntimeError) as error:
            first, *_ = str(error).splitlines() or [""]
            raise NotInTilesError(network, f"its layers depend on the image ({first})") from error
        if not is_windowed:
            self._replace_layers_of_whole_images()
        self.segments = self._find_segments(cut_at)
        self.strides: dict[fx.Node, int] = {}
        self._reaches: dict[fx.Node, int] = {}
        for node in self.segments:
            self._find_stride_and_reach(node, image_stride)

    def _replace_layers_of_whole_images(self) -> None:
        for node in [node for node in self.graph.nodes if self.extent(node) == "left_out"]:
            node.replace_all_uses_with(node.all_input_nodes[0])
            self.graph.erase_node(node)
        for name, norm in self._network.named_modules():
            if isinstance(norm, nn.InstanceNorm2d) and not (norm.affine or norm.track_running_stats):
                self._module.set_submodule(name, WholeImageNorm(norm.eps))

    def layer(self, node: fx.Node) -> nn.Module | None:
        """Return the layer of a node, or None if the node is a function or an input."""
        return self._module.get_submodule(str(node.target)) if node.op == "call_module" else None

    def extent(self, node: fx.Node) -> str:
        """Return `InTiles.extent` of a node."""
        declared = getattr(self.layer(node), "in_tiles", InTiles())
        assert isinstance(declared, InTiles)
        return declared.extent

    def cut(self, number: int) -> Segment:
        """Return segment `number`."""
        nodes = self._nodes_of(number)
        inputs = dict.fromkeys(i for node in nodes for i in node.all_input_nodes if i not in nodes)
        result = next(node for node in self.graph.nodes if node.op == "output").all_input_nodes
        later = {node for node in nodes if any(self.segments.get(user, 0) > number for user in node.users)}
        written = {node for node in later if self.extent(node) != "every_segment"}
        outputs = [node for node in nodes if node in result or node in written]
        part = fx.Graph()
        copies: dict[fx.Node, fx.Node] = {i: part.placeholder(i.name) for i in inputs}
        for node in nodes:
            copies[node] = part.node_copy(node, copies.__getitem__)
        part.output(tuple(copies[node] for node in outputs))
        coarsest = max(self.strides[node] for node in (*inputs, *nodes))
        reach = max(self._reaches[node] for node in nodes)
        return Segment(
            network=fx.GraphModule(self._module, part),
            reads={IMAGE if i.op == "placeholder" else i.name: self.strides[i] for i in inputs},
            writes={node.name: self.strides[node] for node in outputs},
            norms={
                node.name: [norm for user in node.users if isinstance(norm := self.layer(user), WholeImageNorm)]
                for node in outputs
            },
            reach=-(-reach // coarsest) * coarsest,
        )

    def _nodes_of(self, number: int) -> list[fx.Node]:
        """Return the nodes of a segment in order. Include the shared nodes that each segment computes again."""
        chosen = {node for node, segment in self.segments.items() if segment == number and node.op != "placeholder"}
        missing = [*chosen]
        while missing:
            inputs = set(missing.pop().all_input_nodes) - chosen
            repeated = {node for node in inputs if self.extent(node) == "every_segment"}
            chosen |= repeated
            missing += repeated
        return [node for node in self.graph.nodes if node in chosen]

    def _find_segments(self, cut_at: tuple[type[nn.Module], ...]) -> dict[fx.Node, int]:
        """Return the segment number of each node. A node belongs to the earliest segment that can compute it.

        If only later segments use a node of segment 0, move it to the earliest segment that uses it. This saves a
        temporary file. For example, the scales and shifts of SPADE layers depend only on the image.
        """
        segments: dict[fx.Node, int] = {}
        cuts = {node: int(isinstance(self.layer(node), cut_at)) for node in self.graph.nodes}
        for node in self.graph.nodes:
            if node.op != "output":
                segments[node] = max((segments[i] for i in node.all_input_nodes), default=0) + cuts[node]
        for node in reversed(segments):
            users = [segments[user] - cuts[user] for user in node.users if user.op != "output"]
            if segments[node] == 0 and node.op != "placeholder" and len(users) == len(node.users):
                segments[node] = min(users, default=0)
        return segments

    def _find_stride_and_reach(self, node: fx.Node, image_stride: int) -> None:
        if node.op == "placeholder":
            if self.strides and node.users:
                raise NotInTilesError(self._network, f"it has a second input, {node.name}")
            self.strides[node], self._reaches[node] = image_stride, 0
            return
        layer, inputs = self.layer(node), node.all_input_nodes
        own = _function_in_tiles(node) if layer is None else _in_tiles(layer)
        if own is None:
            name = str(getattr(node.target, "__name__", node.target))
            what = name if layer is None else f"its layer {name} ({type(layer).__name__})"
            raise NotInTilesError(self._network, f"{what} may need more of the image than a tile")
        stride = self.strides[inputs[0]]
        earlier = [self._reaches[i] for i in inputs if self.segments[i] == self.segments[node]]
        self.strides[node] = int(stride * own.stride)
        self._reaches[node] = own.reach * stride + max(earlier, default=0)


def _in_tiles(layer: nn.Module) -> InTiles | None:
    """Return how a layer of this project or of torch is computed in tiles, or None if this is unknown."""
    if isinstance(declared := getattr(layer, "in_tiles", None), InTiles):
        return declared
    match layer:
        case nn.Conv2d() if isinstance(layer.padding, tuple):
            spans = [dilation * (size - 1) for dilation, size in zip(layer.dilation, layer.kernel_size, strict=True)]
            return InTiles(max(spans) // 2, Fraction(layer.stride[0]))
        case nn.ConvTranspose2d():
            return InTiles(-(-(layer.kernel_size[0] - 1) // (2 * layer.stride[0])), 1 / Fraction(layer.stride[0]))
        case nn.Upsample(mode="nearest" | "bilinear", scale_factor=int() | float() as factor):
            return InTiles(int(layer.mode == "bilinear"), 1 / Fraction(factor))
        # the reach of the next convolution includes the padding
        case nn.ReflectionPad2d() | WholeImageNorm() | nn.BatchNorm2d() | nn.Dropout() | nn.Identity():
            return InTiles()
        case nn.InstanceNorm2d(affine=False, track_running_stats=False):
            return InTiles()
    return InTiles() if isinstance(layer, _POINTWISE_LAYERS) else None


def _function_in_tiles(node: fx.Node) -> InTiles | None:
    """Return how a function is computed in tiles, or None if this is unknown."""
    match str(getattr(node.target, "__name__", node.target)), node.kwargs:
        case "avg_pool2d", {"kernel_size": int(size), "stride": int(stride)}:
            return InTiles(size // 2, Fraction(stride))
        case "interpolate", {"mode": "nearest", "scale_factor": int() | float() as factor}:
            return InTiles(stride=1 / Fraction(factor))
        case name, _ if name in _POINTWISE and node.all_input_nodes:
            return InTiles()
    return None
