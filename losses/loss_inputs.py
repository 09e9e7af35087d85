"""The input of the generator's losses."""

from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Protocol

from torch import Tensor


class ScaleOutput(Protocol):
    """The output of the discriminator at one scale."""

    @property
    def features(self) -> Sequence[Tensor]:
        """The activations of its layers, (N, C_l, H_l, W_l) each."""
        ...

    @property
    def logits(self) -> Tensor:
        """(N, 1, H_s, W_s), unbounded."""
        ...


Discriminate = Callable[[], Sequence[ScaleOutput]]


class LossInputs:
    """Translated images, their targets, and the discriminator's outputs for both.

    fake, target: (N, C, H, W) in [-1, 1].

    A loss reads what it needs. The discriminator's outputs are computed when the first loss reads them, so that an
    update without such a loss does without the passes.
    """

    def __init__(
        self, fake: Tensor, target: Tensor, *, discriminate_fake: Discriminate, discriminate_target: Discriminate
    ) -> None:
        self.fake = fake
        self.target = target
        self._discriminate_fake = discriminate_fake
        self._discriminate_target = discriminate_target

    @cached_property
    def fake_outputs(self) -> Sequence[ScaleOutput]:
        """The outputs for the translated images, one for each scale; gradients reach the generator through them."""
        return self._discriminate_fake()

    @cached_property
    def target_outputs(self) -> Sequence[ScaleOutput]:
        """The outputs for the targets, one for each scale; a loss detaches what it reads of them."""
        return self._discriminate_target()


GeneratorLoss = Callable[[LossInputs], Tensor]
"""Maps a translation to a 0-d tensor, float32 under autocast."""
