"""The convolution with which discriminators begin: of a source and an image that is said to translate it."""

import torch.nn.functional as F
from torch import Tensor, nn


class PairConv2d(nn.Conv2d):
    """nn.Conv2d over the channels of a source and an image, without joining them.

    The source is the wide one (36 channels against 3 on Cityscapes) and wants no gradient, nor is it another for real
    and translated images: so it is convolved once for both, and only the image's channels are gone back through: at
    128x128 a training step takes 1/17 less (2 cores).
    """

    def forward(self, source: Tensor, image: Tensor) -> Tensor:  # type: ignore[override]
        """(N, C, H, W) and (k N, in_channels - C, H, W), k images of each source, to (k N, out_channels, H', W')."""
        weight, n_channels = self.weight, source.shape[1]  # read once: spectral norm computes it
        of_source = F.conv2d(source, weight[:, :n_channels], self.bias, self.stride, self.padding)
        of_image = F.conv2d(image, weight[:, n_channels:], None, self.stride, self.padding)
        return (of_image.unflatten(0, (-1, len(source))) + of_source).flatten(0, 1)
