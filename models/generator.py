"""The base class of generators, the sides of images that they take, and generators with an encoder."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol, runtime_checkable

from torch import Tensor, nn


@dataclass(frozen=True)
class ImageSides:
    """The heights and widths that a generator takes: multiples of `multiple`, at least `minimum`, in pixels."""

    multiple: int
    minimum: int

    def check(self, images: Tensor) -> None:
        """Raise ValueError if (N, C, H, W) images have other sides; tracing makes it a guard of the program."""
        for side in images.shape[2:]:
            if side % self.multiple or side < self.minimum:
                raise ValueError(
                    f"a side of {side} pixels, expected a multiple of {self.multiple}, at least {self.minimum}"
                )


class Generator(nn.Module):
    """A network that translates (N, in_channels, H, W) into (N, out_channels, scale * H, scale * W).

    Its constructor has arguments of the names of the settings that it takes; the rules of these settings are below.
    """

    image_sides: ClassVar[Callable[..., ImageSides]]
    """A static method that returns the sides that a network with these settings takes."""

    @staticmethod
    def without_effect(*args: Any, **settings: Any) -> Sequence[str]:
        """Return the arguments that have no effect beside the settings that are named."""
        return ()

    @property
    def coarse_parts(self) -> Sequence[str]:
        """Prefixes of the names of the parameters that train.freeze_global_epochs freezes."""
        return ()


@runtime_checkable
class FeatureGenerator(Protocol):
    """A generator with features at named layers, which method.name=contrastive compares (`GlobalGenerator`)."""

    def features(self, source: Tensor, taps: Sequence[str]) -> list[Tensor]:
        """Return the outputs of the layers `taps`, (N, C, H, W) each; raise KeyError if there is no such layer."""
        ...

    def translate_with_features(self, source: Tensor, taps: Sequence[str]) -> tuple[Tensor, list[Tensor]]:
        """Return the translation, and the features of `source` at `taps`, from one pass."""
        ...


class EncodedGenerator(nn.Module):
    """A generator, and the encoder that is trained with it; subclasses define what the one gets of the other."""

    def __init__(self, generator: Generator, encoder: nn.Module) -> None:
        super().__init__()
        self.generator = generator
        self.encoder = encoder

    @property
    def coarse_parts(self) -> Sequence[str]:
        """Prefixes of names, as those of the generator."""
        return [f"generator.{prefix}" for prefix in self.generator.coarse_parts]
