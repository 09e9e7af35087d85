"""Section `method`."""

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True)
class MethodConfig:
    """How the networks are trained."""

    name: Literal["paired"] = "paired"
    """paired: from pairs, with a generator and a discriminator that sees both sides (pix2pixHD, SPADE, OASIS)."""

    @property
    def translators(self) -> dict[str, str]:
        """The names of the networks that translate, by direction, the default one first."""
        return {"AtoB": "generator"}

    @property
    def default_direction(self) -> str:
        """The first direction of `translators`."""
        return next(iter(self.translators))
