"""L1 between activations, in the dtype of the activations."""

import torch
from torch import Tensor

from losses.pixel_weights import PixelWeights


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
