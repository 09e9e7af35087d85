"""The L1 of constant colours: a baseline that every trained model must beat."""

import torch
from torch import Tensor


class ConstantColorBaseline:
    """The L1 of a model that gives each class a single colour: the median of the class in all targets.

    A model gets a lower L1 only if it has learned texture or light. All images have the same weight. Pixel weights
    apply to the medians and to the L1.

    n_classes: Number of classes of the label maps. 0: sources are images, and all their pixels are one class.
    """

    def __init__(self, n_classes: int, n_channels: int = 3) -> None:
        self._histograms = torch.zeros(max(1, n_classes) + 1, n_channels, 256, dtype=torch.float64)
        self._n_classes = n_classes
        self._n_images = 0

    def add(self, source: Tensor, target: Tensor, weights: Tensor | None = None) -> None:
        """Add a sample: (1, H, W) class ids or a (C, H, W) image, and an (n_channels, H, W) uint8 target.

        Class ids are resized to the target's size (nearest neighbour). A sample is ignored if all weights are 0.

        weights: Weights of the target's pixels, (1, H, W) float32 of at least 0; None for equal weights.
        """
        total = float(target[0].numel() if weights is None else weights.sum(dtype=torch.float64))
        if not total:
            return
        shares = None if weights is None else weights.flatten().double()
        n_bins, first_bins = self._histograms.shape[0] * 256, None
        if self._n_classes:
            ids = source[0].int()
            if ids.shape != target.shape[1:]:
                places = [torch.arange(n) * own // n for n, own in zip(target.shape[1:], ids.shape, strict=True)]
                ids = ids[places[0][:, None], places[1]]
            first_bins = ids * 256
        for channel, levels in enumerate(target):
            bins = levels if first_bins is None else first_bins + levels
            counts = torch.bincount(bins.flatten(), shares, minlength=n_bins)
            self._histograms[:, channel] += counts.view(-1, 256) / total
        self._n_images += 1

    def add_all(self, other: "ConstantColorBaseline") -> None:
        """Add the samples of another baseline with the same classes."""
        self._histograms += other._histograms
        self._n_images += other._n_images

    def l1(self) -> float | None:
        """Return the mean absolute difference between targets and class medians, 0 to 1; None without images."""
        if not self._n_images:
            return None
        levels = torch.arange(256, dtype=torch.float64)
        below = self._histograms.cumsum(-1)
        medians = (below < below[..., -1:] / 2).sum(-1)  # (K + 1, channels)
        distances = (levels - medians.unsqueeze(-1)).abs()
        return float((self._histograms * distances).sum() / (self._histograms.shape[1] * 255 * self._n_images))
