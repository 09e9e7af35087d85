"""Features of targets that come again unchanged, computed once."""

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

Features = list[Tensor]


class KeptFeatures:
    """Computes features of images by their names, and looks them up when the same names come again.

    compute: gives a list of features for (N, 3 or 1, H, W) images. max_bytes: most that is kept, where it was computed;
    what comes when that is full is computed each time.
    """

    def __init__(self, compute: Callable[[Tensor], Features], max_bytes: int) -> None:
        self._compute = compute
        self._max_bytes = max_bytes
        self._held_bytes = 0
        self._kept: dict[str, Features] = {}

    def __call__(self, images: Tensor, names: Sequence[str]) -> Features:
        """Features of (N, 3 or 1, H, W) images, without graph; an image of the same name has to be the same image."""
        each = [self._of_one(image[None], name) for image, name in zip(images, names, strict=True)]
        return each[0] if len(each) == 1 else [torch.cat(layer) for layer in zip(*each, strict=True)]

    @torch.no_grad()
    def _of_one(self, image: Tensor, name: str) -> Features:
        # one by one: in a batch the last bits depend on the other images, and a run that goes on would differ
        if name in self._kept:
            return self._kept[name]
        features = self._compute(image)
        n_bytes = sum(feature.nbytes for feature in features)
        if self._held_bytes + n_bytes <= self._max_bytes:
            self._kept[name] = features
            self._held_bytes += n_bytes
        return features
