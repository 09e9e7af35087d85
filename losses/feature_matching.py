"""Feature matching on the discriminator's activations (Wang et al. 2018, Eq. 4)."""

from collections.abc import Sequence

import torch
from torch import Tensor

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


def feature_distance(ours: Tensor, theirs: Tensor, weights: PixelWeights | None = None) -> Tensor:
    """Return the mean absolute difference of two tensors of one shape and dtype, 0-d; no gradient reaches `theirs`.

    weights: of the places of (N, C, H, W) tensors.

    F.l1_loss under autocast would first make float32 copies of both, which for activations takes most of its time. Here
    the difference and the gradient, a sign over the number of values, are in the dtype of the activations, which
    rounds them no more than the backward pass does; the sum is in float32 or finer.
    """
    assert ours.shape == theirs.shape, (ours.shape, theirs.shape)
    difference = (ours - theirs.detach()).abs()
    if weights:
        return weights.mean(difference)
    return difference.sum(dtype=torch.promote_types(ours.dtype, torch.float32)) / ours.numel()
