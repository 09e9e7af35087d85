"""The base class of generators, the image sizes that they accept, and generators with an encoder."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

from torch import Tensor, nn

from utils.errors import ConfigError


@dataclass(frozen=True)
class ImageSides:
    """The heights and widths that a generator accepts: multiples of `multiple`, at least `minimum`, in pixels."""

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

    Its constructor names its settings. The class declares what depends only on the type of network.

    translates: Type of sources. Methods without pairs translate only images.
    has_coarse_parts: Whether train.freeze_global_epochs has an effect; see `coarse_parts`.
    keeps_normed_weights: Whether init.distribution=xavier leaves the convolutions under spectral norm as torch draws
        them, and sets biases to 0, as SPADE's code does.
    """

    translates: ClassVar[Literal["images", "label maps"]] = "images"
    has_coarse_parts: ClassVar[bool] = False
    keeps_normed_weights: ClassVar[bool] = False

    image_sides: ClassVar[Callable[..., ImageSides]]
    """A static method that returns the sides that a network with these settings accepts."""

    @staticmethod
    def unsupported(*args: Any, **settings: Any) -> Mapping[str, str]:
        """Return the settings that cannot be used together, by name, with the values that are expected instead."""
        return {}

    @staticmethod
    def without_effect(*args: Any, **settings: Any) -> Sequence[str]:
        """Return the settings that have no effect with these values of others."""
        return ()

    @staticmethod
    def compared_layers(*args: Any, **settings: Any) -> Sequence[str]:
        """Return the names of the layers whose outputs method.name=contrastive compares; none if it cannot."""
        return ()

    @property
    def coarse_parts(self) -> Sequence[str]:
        """Prefixes of the names of the parameters that train.freeze_global_epochs freezes."""
        return ()

    def features(self, source: Tensor, taps: Sequence[str]) -> list[Tensor]:
        """Return the outputs of the layers `taps`, (N, C, H, W) each; raise KeyError if there is no such layer."""
        raise ConfigError(
            f"method.name=contrastive: {type(self).__name__} lacks features. Define them as "
            "models.global_generator.GlobalGenerator does, or set generator.name=global or method.name=cycle."
        )

    def translate_with_features(self, source: Tensor, taps: Sequence[str]) -> tuple[Tensor, list[Tensor]]:
        """Return the translation, and the features of `source` at `taps`. A subclass may compute both in one pass."""
        return self(source), self.features(source, taps)


class EncodedGenerator(nn.Module):
    """A generator and the encoder that is trained with it. Subclasses define how they are connected."""

    def __init__(self, generator: Generator, encoder: nn.Module) -> None:
        super().__init__()
        self.generator = generator
        self.encoder = encoder

    @property
    def coarse_parts(self) -> Sequence[str]:
        """Prefixes of names in the generator."""
        return [f"generator.{prefix}" for prefix in self.generator.coarse_parts]
