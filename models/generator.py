"""Base class of generators, allowed image sizes, and generators with an encoder."""

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
        """Raise ValueError if the size of (N, C, H, W) images is not allowed. Exported programs keep this check."""
        for side in images.shape[2:]:
            if side % self.multiple or side < self.minimum:
                raise ValueError(
                    f"a side of {side} pixels, expected a multiple of {self.multiple}, at least {self.minimum}"
                )


class Generator(nn.Module):
    """A network that translates (N, in_channels, H, W) into (N, out_channels, scale * H, scale * W).

    The arguments of the constructor are the settings of the network. Class attributes do not depend on the settings.

    translates: Type of the sources. Training methods for unpaired data need images.
    has_coarse_parts: Whether train.freeze_global_epochs can freeze the parameters named by `coarse_parts`.
    keeps_normed_weights: Whether init.distribution=xavier works as in SPADE's code: convolutions with spectral norm
        keep torch's default weights, and all biases are 0.
    """

    translates: ClassVar[Literal["images", "label maps"]] = "images"
    has_coarse_parts: ClassVar[bool] = False
    keeps_normed_weights: ClassVar[bool] = False

    image_sides: ClassVar[Callable[..., ImageSides]]
    """Static method that returns the image sizes that a network with these settings accepts."""

    @staticmethod
    def unsupported(*args: Any, **settings: Any) -> Mapping[str, str]:
        """Return the unsupported settings by name, each with a text that lists the supported values."""
        return {}

    @staticmethod
    def without_effect(*args: Any, **settings: Any) -> Sequence[str]:
        """Return the names of settings that have no effect with these arguments."""
        return ()

    @staticmethod
    def compared_layers(*args: Any, **settings: Any) -> Sequence[str]:
        """Return the names of the layers whose outputs method.name=contrastive compares, or () if unsupported."""
        return ()

    @property
    def coarse_parts(self) -> Sequence[str]:
        """Name prefixes of the parameters that train.freeze_global_epochs freezes."""
        return ()

    def features(self, source: Tensor, taps: Sequence[str]) -> list[Tensor]:
        """Return the outputs of the layers `taps`, (N, C, H, W) each. Raise KeyError for an unknown layer."""
        raise ConfigError(
            f"method.name=contrastive: {type(self).__name__} has no method `features`. Define it as "
            "models.global_generator.GlobalGenerator does, or set generator.name=global or method.name=cycle."
        )

    def translate_with_features(self, source: Tensor, taps: Sequence[str]) -> tuple[Tensor, list[Tensor]]:
        """Return self(source) and self.features(source, taps). Subclasses can compute both in one pass."""
        return self(source), self.features(source, taps)


class EncodedGenerator(nn.Module):
    """A generator and an encoder that are trained together. Subclasses define how the two are connected."""

    def __init__(self, generator: Generator, encoder: nn.Module) -> None:
        super().__init__()
        self.generator = generator
        self.encoder = encoder

    @property
    def coarse_parts(self) -> Sequence[str]:
        """Name prefixes of the parameters that train.freeze_global_epochs freezes."""
        return [f"generator.{prefix}" for prefix in self.generator.coarse_parts]
