"""The distance between pixels."""

import torch.nn.functional as F
from torch import Tensor

from losses.loss_inputs import LossInputs


def l1(translation: LossInputs) -> Tensor:
    """Return the mean absolute difference of translated images and targets, 0-d (Isola et al. 2017, Eq. 3)."""
    if translation.weights:
        difference = translation.fake.float() - translation.target.float()
        return translation.weights.of_images.mean(difference.abs())
    return F.l1_loss(translation.fake, translation.target)
