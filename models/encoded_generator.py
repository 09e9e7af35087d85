"""A generator with the encoder of images that conditions it."""

from typing import cast

from torch import nn


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
