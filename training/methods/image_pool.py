"""A pool of earlier translations. It replaces some of the translations that a discriminator is trained on."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from utils.device import at_least_float32

Pair = tuple[Tensor, Tensor]
"""The condition (1, C, H, W) of a translation, and the translation (1, 3, H, W)."""


@dataclass
class _Ahead:
    """The pool's random choice for the next step. Its tensors keep their addresses, as a CUDA graph requires.

    earlier: Copy of the drawn pair in the pool.
    present: Pair of the current translation.
    is_shown: Whether the discriminator gets `earlier`, 0-d bool.
    place: Index of `earlier` in the pool, or None if the discriminator gets `present`.
    is_drawn: Whether `draw_ahead` has been called and `settle` has not.
    """

    earlier: Pair
    present: Pair
    is_shown: Tensor
    place: int | None = None
    is_drawn: bool = False


class ImagePool:
    """Up to `size` earlier translations. An earlier translation replaces the current translation half of the time.

    The pool then stores the current translation instead (Shrivastava et al. 2017, section 2.3).
    Random numbers come from torch's random state on the CPU.

    coin_first: Whether to draw an index only if an earlier translation replaces the current one, as in CycleGAN.
        pix2pixHD and pix2pix always draw an index.
    """

    def __init__(self, size: int, *, coin_first: bool = False) -> None:
        self._size = size
        self._coin_first = coin_first
        self._pairs: list[Pair] = []
        self._ahead: _Ahead | None = None

    def can_draw_ahead(self, sides: Sequence[int]) -> bool:
        """Return whether `draw_ahead` is possible: the pool must be full of images of this height and width."""
        return len(self._pairs) == self._size and {fake.shape[-2:] for _, fake in self._pairs} == {tuple(sides)}

    def draw_ahead(self) -> None:
        """Draw the index for the next exchange of one pair, and copy the pair at this index to the fixed memory."""
        place = self.draw_place()
        earlier = self._pairs[place or 0]
        if self._ahead is None or self._ahead.earlier[1].shape != earlier[1].shape:
            self._ahead = _Ahead(_copy(earlier), _copy(earlier), earlier[1].new_zeros((), dtype=torch.bool))
        self._ahead.place, self._ahead.is_drawn = place, True
        _write(self._ahead.earlier, earlier)
        self._ahead.is_shown.fill_(place is not None)

    def settle(self) -> None:
        """Store the current translation in the pool if `draw_ahead` drew an index."""
        if self._ahead and self._ahead.is_drawn:
            self._ahead.is_drawn = False
            if self._ahead.place is not None:
                self._pairs[self._ahead.place] = _copy(self._ahead.present)

    def exchange(self, source: Tensor, fake: Tensor) -> Pair:
        """Return conditions (N, C, H, W) and float32 translations (N, 3, H, W) for the discriminator, without graph.

        Earlier images of another size are used only if N is 1.
        """
        if self._ahead and self._ahead.is_drawn:
            present = source, at_least_float32(fake.detach())
            _write(self._ahead.present, present)
            both = zip(self._ahead.earlier, present, strict=True)
            shown, translated = (torch.where(self._ahead.is_shown, old, new) for old, new in both)
            return shown, translated
        pairs = zip(source.split(1), at_least_float32(fake.detach()).split(1), strict=True)
        sources, fakes = zip(*(self._exchange_one(pair, is_alone=len(source) == 1) for pair in pairs), strict=True)
        return torch.cat(sources), torch.cat(fakes)

    def _exchange_one(self, pair: Pair, is_alone: bool) -> Pair:
        if len(self._pairs) < self._size:
            self._pairs.append(_copy(pair))
            return pair
        place = self.draw_place()
        if place is None:
            return pair
        earlier, self._pairs[place] = self._pairs[place], _copy(pair)
        # an earlier image with another size or other channels does not fit into the batch
        first = 2 if is_alone else 4
        is_fit = all(old.shape[:first] == new.shape[:first] for old, new in zip(earlier, pair, strict=True))
        return earlier if is_fit else pair

    def draw_place(self) -> int | None:
        """Draw the index of an earlier translation for the discriminator, or None for the current translation."""
        if self._coin_first:
            return int(torch.randint(self._size, ())) if torch.rand(()) > 0.5 else None
        place = int(torch.randint(self._size, ()))
        return None if torch.rand(()) < 0.5 else place

    def state_dict(self) -> list[Pair]:
        """Return the pairs, on the CPU."""
        return [(source.cpu(), fake.cpu()) for source, fake in self._pairs]

    def load_state_dict(self, pairs: list[Pair], device: torch.device) -> None:
        """Load copies of the first `size` pairs. Raise ValueError if a pair does not consist of two single images."""
        are_single = all(image.dim() == 4 and len(image) == 1 for pair in pairs for image in pair)
        if not (are_single and all(fake.is_floating_point() for _, fake in pairs)):
            raise ValueError("the pool of translations does not hold pairs of images")
        self._pairs = [_copy((source.to(device), fake.to(device))) for source, fake in pairs[: self._size]]


def _copy(pair: Pair) -> Pair:
    """Copy a pair, because a view would keep its batch in memory."""
    return pair[0].clone(), pair[1].clone()


def _write(kept: Pair, new: Pair) -> None:
    for into, values in zip(kept, new, strict=True):
        into.copy_(values)
