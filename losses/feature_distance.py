"""L1 between activations, as large as they are."""

import torch
from torch import Tensor


def feature_distance(ours: Tensor, theirs: Tensor) -> Tensor:
    """Mean absolute difference, 0-d, of two tensors of one shape and dtype; no gradient reaches `theirs`.

    F.l1_loss under autocast would first make float32 copies of both, which for activations takes most of its time. Here
    the difference and the gradient, a sign over the number of values, are in the dtype of the activations, which
    rounds them no more than the gradient's way back does; the sum is in float32 or finer.
    """
    assert ours.shape == theirs.shape, (ours.shape, theirs.shape)
    difference = (ours - theirs.detach()).abs()
    return difference.sum(dtype=torch.promote_types(ours.dtype, torch.float32)) / ours.numel()
