"""Checks of user-defined generators and discriminators before their first use."""

import copy
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from models.patch_discriminator import DiscriminatorOutput
from utils.errors import ConfigError

_PAGE = "see docs/architecture.md"
_TOLERANCE = 0.01  # allowed difference of equal logits, in standard deviations; far above rounding errors


def is_own(network: type[nn.Module]) -> bool:
    """Return whether a network class is user-defined, that is, not in this package."""
    return network.__module__.partition(".")[0] != __name__.partition(".")[0]


def check_on_meta_device(make: Callable[[], nn.Module], key: str) -> None:
    """Raise ConfigError unless `make` can build a network on torch's meta device, as loading a checkpoint does.

    key: Setting that chooses the network, for the error message.
    """
    try:
        with torch.random.fork_rng([]), torch.device("meta"):
            make()
    except (RuntimeError, TypeError, ValueError) as error:
        problem = f"cannot be built on the meta device, as is needed to load a checkpoint: {_first_line(error)}"
        raise ConfigError(f"{key}: {problem}. Do not read tensor values in the constructor; {_PAGE}.") from error


@torch.no_grad()
def check_generator(network: nn.Module, key: str, in_channels: int, target: tuple[int, int, int], side: int) -> None:
    """Raise ConfigError unless a generator maps a source of `side` x `side` pixels to an image of shape `target`.

    key: Setting that chooses the network, for the error message. target: Channels, height and width of the image.
    """
    found = _output(network, torch.zeros(1, in_channels, side, side))
    if not isinstance(found, Tensor) or found.shape != (1, *target):
        shape = tuple(found.shape) if isinstance(found, Tensor) else type(found).__name__
        raise ConfigError(
            f"{key}: for a source of shape {(1, in_channels, side, side)} it returns {shape}. "
            f"Return a tensor of shape {(1, *target)}; {_PAGE}."
        )


@torch.no_grad()
def check_discriminator(
    network: nn.Module,
    key: str,
    source_channels: int,
    image_channels: int,
    side: int,
    *,
    needs_features: bool = False,
) -> None:
    """Raise ConfigError unless a discriminator accepts N sources and k N images, and pairs image i with source i mod N.

    key: Setting that chooses the network, for the error message. side: Height and width of the images, in pixels.
    needs_features: Whether to check that the discriminator returns features for feature matching.
    """
    draw = torch.Generator().manual_seed(0)
    sources = torch.randn(2, source_channels, side, side, generator=draw)
    images = torch.randn(4, image_channels, side, side, generator=draw)
    outputs = _output(network, sources.repeat(2, 1, 1, 1), images)
    repeated = _logits(key, outputs)
    if needs_features and not all(output.features for output in outputs):
        raise ConfigError(f"{key}: the discriminator returns no features. Set loss.feature_matching=0.")
    if not source_channels:  # the discriminator sees only images
        return
    remedy = f"Repeat the sources: source.repeat(len(image) // len(source), 1, 1, 1); {_PAGE}."
    try:
        unrepeated = _logits(key, _output(network, sources, images))
    except (RuntimeError, ValueError, IndexError) as error:
        raise ConfigError(f"{key}: fails with 2 sources and 4 images: {_first_line(error)}. {remedy}") from error
    for expected, found in zip(repeated, unrepeated, strict=True):
        allowed = _TOLERANCE * float(expected.std()) + 1e-5 * float(expected.abs().max())
        if float((expected - found).abs().max()) > allowed:
            raise ConfigError(f"{key}: 4 images with 2 sources: image i must be paired with source i % 2. {remedy}")


def _logits(key: str, outputs: Any) -> list[Tensor]:
    """Return the logits of each scale for 4 images; raise ConfigError if the outputs have other types or shapes."""
    if not isinstance(outputs, list) or not outputs or not all(isinstance(x, DiscriminatorOutput) for x in outputs):
        raise ConfigError(f"{key}: returns {type(outputs).__name__}. Return a list of DiscriminatorOutput; {_PAGE}.")
    tensors = [tensor for output in outputs for tensor in (output.logits, *output.features)]
    if wrong := [tuple(tensor.shape) for tensor in tensors if tensor.ndim != 4 or len(tensor) != 4]:
        raise ConfigError(f"{key}: for 4 images it returns a tensor of shape {wrong[0]}. Return (4, C, H, W); {_PAGE}.")
    return [output.logits for output in outputs]


def _output(network: nn.Module, *inputs: Tensor) -> Any:
    """Return a network's output in evaluation mode, without changing the network or torch's random state."""
    with torch.random.fork_rng([]):
        torch.manual_seed(0)
        return copy.deepcopy(network).eval()(*inputs)


def _first_line(error: Exception) -> str:
    return next(iter(str(error).splitlines()), type(error).__name__).rstrip(".")
