"""What all generators share."""

from dataclasses import dataclass
from typing import cast

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


class EncodedGenerator(nn.Module):
    """A generator, and the encoder that is trained with it; subclasses define what the one gets of the other."""

    def __init__(self, generator: nn.Module, encoder: nn.Module) -> None:
        super().__init__()
        self.generator = generator
        self.encoder = encoder

    @property
    def coarse_parts(self) -> list[str]:
        """Prefixes of the names of the parameters below the finest enhancer; the generator must have enhancers."""
        return [f"generator.{prefix}" for prefix in cast(list[str], self.generator.coarse_parts)]
