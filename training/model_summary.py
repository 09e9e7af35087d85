"""A network as a table: each layer's output, parameters and arithmetic."""

import warnings
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import cast

from torch import Tensor, nn
from torch.nn.utils.parametrize import is_parametrized
from torch.utils.flop_counter import FlopCounterMode


@dataclass(frozen=True)
class Layer:
    """One call of a layer.

    shape: of its output.
    flop: floating-point operations of its convolutions; a multiplication and an addition are two.
    """

    name: str
    shape: tuple[int, ...]
    n_parameters: int
    flop: int


@contextmanager
def watched_layers(network: nn.Module) -> Iterator[list[Layer]]:
    """Yield a list that gets the layers with weights as they are called within the context.

    torch.compile does not compile within it: networks are called as they are written.
    """
    layers: list[Layer] = []
    with ExitStack() as stack:
        stack.enter_context(warnings.catch_warnings())
        warnings.filterwarnings("ignore", message="Using `torch.compile")  # with the counter's global hooks
        counter = stack.enter_context(FlopCounterMode(display=False))
        for name, module in _layers_of(network):
            watch = _Watch(name, counter, layers)
            stack.callback(module.register_forward_pre_hook(watch.begin).remove)
            stack.callback(module.register_forward_hook(watch.end).remove)
        yield layers


def table(title: str, layers: list[Layer]) -> list[str]:
    """Return the layers, and their sum, as lines of text."""
    width = max([len(layer.name) for layer in layers] + [len(title)])
    lines = [f"{title:<{width}}  {'output':>20}  {'parameters':>12}  {'GFLOP':>9}"]
    for layer in layers:
        shape = "x".join(map(str, layer.shape))
        lines.append(f"{layer.name:<{width}}  {shape:>20}  {layer.n_parameters:>12,}  {layer.flop / 1e9:>9.3f}")
    n_parameters, flop = sum(layer.n_parameters for layer in layers), sum(layer.flop for layer in layers)
    return [*lines, f"{'in all':<{width}}  {'':>20}  {n_parameters:>12,}  {flop / 1e9:>9.3f}"]


@dataclass
class _Watch:
    """The hooks of one layer."""

    name: str
    counter: FlopCounterMode
    layers: list[Layer]
    flop_before: int = 0

    def begin(self, module: nn.Module, inputs: object) -> None:
        self.flop_before = self.counter.get_total_flops()

    def end(self, module: nn.Module, inputs: object, output: Tensor) -> None:
        n_parameters = sum(parameter.numel() for parameter in _weights_of(module))
        flop = self.counter.get_total_flops() - self.flop_before
        self.layers.append(Layer(self.name, tuple(output.shape), n_parameters, flop))


def _weights_of(module: nn.Module) -> Iterator[nn.Parameter]:
    yield from module.parameters(recurse=False)
    if is_parametrized(module):
        yield from cast(nn.ModuleDict, module.parametrizations).parameters()


def _layers_of(network: nn.Module) -> Iterator[tuple[str, nn.Module]]:
    """Yield the modules that have weights; a weight under spectral norm belongs to its convolution."""
    for name, module in network.named_modules():
        is_weight = "parametrizations" in name.split(".")
        if not is_weight and any(True for _ in _weights_of(module)):
            yield name, module
