"""A convolutional network cut at its norms into stages that can be computed tile by tile."""

from dataclasses import dataclass, field
from fractions import Fraction

import torch
import torch.nn.functional as F
from torch import Tensor, fx, nn

from models.latent_inputs import NoiseChannels, StyleStem
from models.layers import UniformToZeros, UpsampledConv2d
from models.spade_generator import ConditionReduction

IMAGE = "image"
_POINTWISE = {"cat", "add", "iadd", "mul", "dropout", "relu", "leaky_relu", "tanh"}  # functions of single pixels
_REPEATED = (NoiseChannels, ConditionReduction)  # of the image alone and cheap: each stage makes its own
_WHOLE = (StyleStem,)
_BEFORE = -1  # in place of a stage, of what is computed before the first


class WholeImageNorm(nn.Module):
    """Instance norm whose statistics are accumulated over parts of an image."""

    def __init__(self, eps: float) -> None:
        super().__init__()
        self._eps = eps
        self.reset()

    def reset(self) -> None:
        """Start a new image."""
        self._n_pixels = 0
        self._mean = self._squares = torch.zeros(0, dtype=torch.float64)

    def add(self, part: Tensor) -> None:
        """Add a part (1, C, h, w) to the statistics; parts must not overlap (Chan et al. 1979, equation 2.1)."""
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
class Stage:
    """The layers from one norm up to the next, computable once the statistics of the norms before it are known.

    network: maps the tensors that it reads to the tensors that it writes, each (1, C, h, w).
    reads, writes: the tensors' names and strides, in pixels of the image or of the output, whichever is larger; the
        image itself is named IMAGE.
    norms: the norms that need the statistics of a written tensor, by its name.
    reach: the distance from which a pixel can affect another, in such pixels; a multiple of all strides.
    """

    network: nn.Module
    reads: dict[str, int]
    writes: dict[str, int]
    norms: dict[str, list[WholeImageNorm]]
    reach: int


@dataclass(frozen=True)
class WholeTensor:
    """The map that a style becomes, (1, C, h, w): of the full image at once, since it depends on the sides alone.

    name, stride, norms: as the tensors that a stage writes.
    """

    stem: StyleStem
    name: str
    stride: int
    norms: list[WholeImageNorm]


@dataclass(frozen=True)
class CutNetwork:
    """The stages of a network in the order of computation, and what is computed for the full image before them."""

    stages: list[Stage]
    whole: list[WholeTensor]


@torch.no_grad()
def cut_at_norms(network: nn.Module, *, at_batch_norms: bool, image_stride: int = 1) -> CutNetwork:
    """Return a network in stages, each of which starts with a norm.

    at_batch_norms: whether to cut at batch norms too, which need no statistics; it makes the reach of a stage shorter.
    image_stride: pixels of the output that a pixel of the image becomes, in each direction; 1 where it becomes fewer.
    """
    graph = _Tracer().trace(network)
    traced = fx.GraphModule(network, graph)
    for node in [node for node in graph.nodes if _is_layer(node, traced, (UniformToZeros,))]:
        node.replace_all_uses_with(node.all_input_nodes[0])  # a tile of one colour is no image of one
        graph.erase_node(node)
    for name, norm in network.named_modules():
        if isinstance(norm, nn.InstanceNorm2d):
            assert not norm.affine, name
            traced.set_submodule(name, WholeImageNorm(norm.eps))
    cut_at = (WholeImageNorm, nn.BatchNorm2d) if at_batch_norms else (WholeImageNorm,)
    plan = _plan(graph, traced, cut_at, image_stride)
    stages = [_stage(number, plan, graph, traced) for number in range(max(plan.stage.values()) + 1)]
    return CutNetwork(stages, [_whole(node, plan, traced) for node in graph.nodes if _is_layer(node, traced, _WHOLE)])


class _Tracer(fx.Tracer):
    """Traces a network down to its layers."""

    def is_leaf_module(self, m: nn.Module, module_qualified_name: str) -> bool:
        own = (UniformToZeros, *_REPEATED, *_WHOLE)
        layers = (nn.Conv2d, nn.ConvTranspose2d, nn.ReflectionPad2d, nn.InstanceNorm2d, *own)
        return isinstance(m, layers) or super().is_leaf_module(m, module_qualified_name)


@dataclass
class _Plan:
    """The stage of each node of a traced network, and its stride and its reach within the stage as in Stage."""

    stage: dict[fx.Node, int] = field(default_factory=dict)
    stride: dict[fx.Node, int] = field(default_factory=dict)
    reach: dict[fx.Node, int] = field(default_factory=dict)


def _plan(graph: fx.Graph, traced: fx.GraphModule, cut_at: tuple[type[nn.Module], ...], image_stride: int) -> _Plan:
    plan = _Plan(_stages_of_nodes(graph, traced, cut_at))
    for node, stage in plan.stage.items():
        inputs = node.all_input_nodes
        if not inputs:
            assert node.op == "placeholder", node
            plan.stride[node], plan.reach[node] = image_stride, 0
            continue
        own_reach, resizing = _geometry(node, traced)
        stride = plan.stride[inputs[0]]
        earlier = [plan.reach[i] for i in inputs if plan.stage[i] == stage]
        plan.stride[node] = int(stride * resizing)
        plan.reach[node] = own_reach * stride + max(earlier, default=0)
    return plan


def _stages_of_nodes(
    graph: fx.Graph, traced: fx.GraphModule, cut_at: tuple[type[nn.Module], ...]
) -> dict[fx.Node, int]:
    """Return the stage of each node: the earliest in which it can be computed; _BEFORE for whole tensors.

    Nodes of the first stage that only a later one uses are left to that one, which saves their file: scales and shifts
    of SPADE layers are made of the image alone.
    """
    stages: dict[fx.Node, int] = {}
    cuts = {node: int(_is_layer(node, traced, cut_at)) for node in graph.nodes}
    for node in graph.nodes:
        if _is_layer(node, traced, _WHOLE):
            stages[node] = _BEFORE
        elif node.op != "output":
            stages[node] = max(0, max((stages[i] for i in node.all_input_nodes), default=0) + cuts[node])
    for node in reversed(stages):
        users = [stages[user] - cuts[user] for user in node.users if user.op != "output"]
        if stages[node] == 0 and node.op != "placeholder" and len(users) == len(node.users):
            stages[node] = min(users, default=0)
    return stages


def _is_layer(node: fx.Node, traced: fx.GraphModule, kinds: tuple[type[nn.Module], ...]) -> bool:
    return node.op == "call_module" and isinstance(traced.get_submodule(str(node.target)), kinds)


def _geometry(node: fx.Node, traced: fx.GraphModule) -> tuple[int, Fraction]:
    """Return how far a node reaches, in pixels of its input, and by which factor it changes the stride."""
    if node.op == "call_module":
        return _layer_geometry(traced.get_submodule(str(node.target)))
    name = str(getattr(node.target, "__name__", node.target))
    if name == "avg_pool2d":
        return int(node.kwargs["kernel_size"]) // 2, Fraction(int(node.kwargs["stride"]))  # type: ignore[arg-type]
    if name == "interpolate":
        assert node.kwargs["mode"] == "nearest", node
        return 0, 1 / Fraction(int(node.kwargs["scale_factor"]))  # type: ignore[arg-type]
    assert name in _POINTWISE, f"{name}: unknown reach"
    return 0, Fraction(1)


def _layer_geometry(layer: nn.Module) -> tuple[int, Fraction]:
    match layer:
        case ConditionReduction():
            return 0, Fraction(layer.factor)
        case UpsampledConv2d():
            return 1, Fraction(1, 2)
        case StyleStem():  # of a reduced condition
            return 0, Fraction(1)
        case nn.Conv2d():
            return (layer.kernel_size[0] - 1) // 2, Fraction(layer.stride[0])
        case nn.ConvTranspose2d():
            return -(-(layer.kernel_size[0] - 1) // (2 * layer.stride[0])), 1 / Fraction(layer.stride[0])
        case nn.Upsample():
            return int(layer.mode != "nearest"), 1 / Fraction(int(layer.scale_factor))  # type: ignore[arg-type]
        # padding counts as part of the convolution that follows
        case (
            nn.ReflectionPad2d() | WholeImageNorm() | nn.BatchNorm2d() | nn.Dropout() | NoiseChannels() | nn.Identity()
        ):
            return 0, Fraction(1)
        case nn.ReLU() | nn.LeakyReLU() | nn.Tanh():
            return 0, Fraction(1)
    raise AssertionError(f"{type(layer).__name__}: unknown reach")


def _stage(number: int, plan: _Plan, graph: fx.Graph, traced: fx.GraphModule) -> Stage:
    nodes = _nodes_of_stage(number, plan, graph, traced)
    inputs = dict.fromkeys(i for node in nodes for i in node.all_input_nodes if i not in nodes)
    result = next(node for node in graph.nodes if node.op == "output").all_input_nodes
    outputs = [
        n
        for n in nodes
        if n in result
        or (any(plan.stage.get(user, 0) > number for user in n.users) and not _is_layer(n, traced, _REPEATED))
    ]
    part = fx.Graph()
    copies: dict[fx.Node, fx.Node] = {i: part.placeholder(i.name) for i in inputs}
    for node in nodes:
        copies[node] = part.node_copy(node, copies.__getitem__)
    part.output(tuple(copies[node] for node in outputs))

    coarsest = max(plan.stride[node] for node in (*inputs, *nodes))
    reach = max(plan.reach[node] for node in nodes)
    return Stage(
        network=fx.GraphModule(traced, part),
        reads={IMAGE if i.op == "placeholder" else i.name: plan.stride[i] for i in inputs},
        writes={node.name: plan.stride[node] for node in outputs},
        norms={node.name: _norms_of(node, traced) for node in outputs},
        reach=-(-reach // coarsest) * coarsest,
    )


def _whole(node: fx.Node, plan: _Plan, traced: fx.GraphModule) -> WholeTensor:
    stem = traced.get_submodule(str(node.target))
    assert isinstance(stem, StyleStem)
    return WholeTensor(stem, node.name, plan.stride[node], _norms_of(node, traced))


def _nodes_of_stage(number: int, plan: _Plan, graph: fx.Graph, traced: fx.GraphModule) -> list[fx.Node]:
    """Return the nodes that are computed in a stage, in their order, with those that each stage repeats."""
    chosen = {node for node, stage in plan.stage.items() if stage == number and node.op != "placeholder"}
    missing = [*chosen]
    while missing:
        inputs = set(missing.pop().all_input_nodes) - chosen
        repeated = {node for node in inputs if _is_layer(node, traced, _REPEATED)}
        chosen |= repeated
        missing += repeated
    return [node for node in graph.nodes if node in chosen]


def _norms_of(node: fx.Node, traced: fx.GraphModule) -> list[WholeImageNorm]:
    layers = [traced.get_submodule(str(user.target)) for user in node.users if user.op == "call_module"]
    return [layer for layer in layers if isinstance(layer, WholeImageNorm)]
