"""Feature matching on the discriminator's activations (Wang et al. 2018, Eq. 4)."""

from collections.abc import Sequence

import torch
from torch import Tensor

from losses.feature_distance import feature_distance
from losses.loss_inputs import LossInputs
from losses.pixel_weights import PixelWeights


def feature_matching(translation: LossInputs) -> Tensor:
    """Return the distance between the discriminator's features of translated images and of targets, 0-d."""
    fake = [scale.features for scale in translation.fake_outputs]
    target = [scale.features for scale in translation.target_outputs]
    return match_features(fake, target, weights=translation.weights.of_discriminated if translation.weights else None)


def match_features(
    fake: Sequence[Sequence[Tensor]], real: Sequence[Sequence[Tensor]], *, weights: PixelWeights | None = None
) -> Tensor:
    """Return the L1 between features of each scale and layer, (N, C_l, H_l, W_l), 0-d; float32 under autocast.

    The sum over the layers is weighted by 4 / L for L layers, so that a deeper discriminator does not weigh more. The
    scales are averaged (pix2pixHD). No gradient reaches `real`.
    """
    terms = [
        feature_distance(fake_layer, real_layer, weights) * (4.0 / len(fake_scale))
        for fake_scale, real_scale in zip(fake, real, strict=True)
        for fake_layer, real_layer in zip(fake_scale, real_scale, strict=True)
    ]
    return torch.stack(terms).sum() / len(fake)
