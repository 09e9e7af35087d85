"""A network as a table: each layer's output, parameters and arithmetic."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from torch import Tensor, nn
from torch.utils.hooks import RemovableHandle


@dataclass(frozen=True)
class Layer:
    """One layer with weights, in one pass. shape: of its output. flop: of its convolution; an addition is one."""

    name: str
    shape: tuple[int, ...]
    n_parameters: int
    flop: int


@contextmanager
def watched_layers(network: nn.Module) -> Iterator[list[Layer]]:
    """Gathers the layers that have weights of their own, as they are called within."""
    layers: list[Layer] = []

    def watch(name: str, module: nn.Module) -> None:
        def note(_module: nn.Module, inputs: tuple[Tensor, ...], output: Tensor) -> None:
            n_parameters = sum(parameter.numel() for parameter in module.parameters(recurse=False))
            layers.append(Layer(name, tuple(output.shape), n_parameters, _flop(module, inputs, output)))

        handles.append(module.register_forward_hook(note))

    handles: list[RemovableHandle] = []
    for name, module in network.named_modules():
        if any(True for _ in module.parameters(recurse=False)):
            watch(name, module)
    try:
        yield layers
    finally:
        for handle in handles:
            handle.remove()


def table(title: str, layers: list[Layer]) -> list[str]:
    """The layers as lines of text, and their sum."""
    width = max([len(layer.name) for layer in layers] + [len(title)])
    lines = [f"{title:<{width}}  {'output':>20}  {'parameters':>12}  {'GFLOP':>9}"]
    for layer in layers:
        shape = "x".join(map(str, layer.shape))
        lines.append(f"{layer.name:<{width}}  {shape:>20}  {layer.n_parameters:>12,}  {layer.flop / 1e9:>9.3f}")
    n_parameters, flop = sum(layer.n_parameters for layer in layers), sum(layer.flop for layer in layers)
    return [*lines, f"{'in all':<{width}}  {'':>20}  {n_parameters:>12,}  {flop / 1e9:>9.3f}"]


def _flop(module: nn.Module, inputs: tuple[Tensor, ...], output: Tensor) -> int:
    """A multiplication and an addition for each weight at each position that it is applied to."""
    if not isinstance(module, nn.Conv2d | nn.ConvTranspose2d):
        return 0
    positions = output if isinstance(module, nn.Conv2d) else inputs[0]
    return 2 * module.weight.numel() * positions.shape[0] * positions.shape[-2] * positions.shape[-1]
