"""Feature matching on the discriminator's activations (Wang et al. 2018, Eq. 4)."""

from collections.abc import Sequence

import torch
from torch import Tensor

from losses.feature_distance import feature_distance


def feature_matching(fake: Sequence[Sequence[Tensor]], real: Sequence[Sequence[Tensor]]) -> Tensor:
    """L1 between the features of translated and real images, for each scale and layer (N, C_l, H_l, W_l).

    The sum over the layers weighs 4 / L for L layers, so that a deeper discriminator does not weigh more, and the
    scales are averaged (pix2pixHD). No gradient reaches `real`. Returns a 0-d tensor; float32 under autocast.
    """
    terms = [
        feature_distance(fake_layer, real_layer) * (4.0 / len(fake_scale))
        for fake_scale, real_scale in zip(fake, real, strict=True)
        for fake_layer, real_layer in zip(fake_scale, real_scale, strict=True)
    ]
    return torch.stack(terms).sum() / len(fake)
