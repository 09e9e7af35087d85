"""The first convolution of the discriminators, over the channels of a source and an image."""

import torch.nn.functional as F
from torch import Tensor, nn


class PairConv2d(nn.Conv2d):
    """nn.Conv2d with zero padding over the channels of a source and an image, without concatenating them.

    The source has most of the channels (36 against 3 on Cityscapes), needs no gradient, and is the same for real and
    translated images. It is convolved once for both, and the backward pass goes through the image's channels alone.
    """

    def forward(self, source: Tensor, image: Tensor) -> Tensor:  # type: ignore[override]
        """Map sources (N, C, H, W) and k images of each, (k N, in_channels - C, H, W), to (k N, out_channels, H', W').

        The first N images are of the N sources, and so are the next N.
        """
        weight, n_channels = self.weight, source.shape[1]  # each access is a step of spectral norm's power iteration
        of_source = F.conv2d(source, weight[:, :n_channels], self.bias, self.stride, self.padding)
        of_image = F.conv2d(image, weight[:, n_channels:], None, self.stride, self.padding)
        return (of_image.unflatten(0, (-1, len(source))) + of_source).flatten(0, 1)
