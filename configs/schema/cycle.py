"""Section `cycle`: the losses of method.name=cycle."""

from dataclasses import dataclass

from configs.schema.checks import require_at_least


@dataclass(frozen=True)
class CycleConfig:
    """method.name=cycle: an image that is translated to the other side and back shall be as before (CycleGAN)."""

    weight_a: float = 10.0
    """Weight of the mean absolute difference of an image of side A and what comes back of it."""
    weight_b: float = 10.0
    """The same of side B."""
    identity: float = 0.5
    """Weight, in shares of those above, of the difference that a generator makes to an image that is on its target's
    side already; keeps colours. 0: none, which saves two passes, and lets the sides have different channels."""

    def __post_init__(self) -> None:
        require_at_least(0, "cycle", **vars(self))
