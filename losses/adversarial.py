"""Least-squares GAN (Mao et al. 2017)."""

from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor


def lsgan(logits: Sequence[Tensor], *, is_real: bool) -> Tensor:
    """Mean squared distance of the logits from 1 (real) or 0 (fake), summed over the scales as in pix2pixHD.

    logits: (N, 1, H_s, W_s) for each scale. Returns a 0-d tensor; float32 under autocast.
    """
    aim = torch.ones_like if is_real else torch.zeros_like
    return torch.stack([F.mse_loss(scale, aim(scale)) for scale in logits]).sum()
