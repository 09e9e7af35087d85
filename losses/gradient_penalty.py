"""Penalties on the gradient of the discriminator with respect to the image."""

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

Judge = Callable[[Tensor], Sequence[Tensor]]
"""Images (N, C, H, W) -> logits (N, 1, H_s, W_s) of each scale."""


def wgan_gradient_penalty(judge: Judge, fake: Tensor, real: Tensor) -> Tensor:
    """Mean squared distance of the gradient's norm from 1, between real and fake (Gulrajani et al. 2017, Eq. 3)."""
    mix = torch.rand(len(real), 1, 1, 1, device=real.device, dtype=real.dtype)
    between = torch.lerp(fake.detach().to(real.dtype), real, mix)
    norms = _gradient(judge, between).flatten(1).norm(dim=1)
    return (norms - 1).square().mean()


def r1_penalty(judge: Judge, real: Tensor) -> Tensor:
    """Half the mean squared norm of the gradient at real images (Mescheder et al. 2018, Eq. 9)."""
    return 0.5 * _gradient(judge, real).flatten(1).square().sum(dim=1).mean()


def _gradient(judge: Judge, images: Tensor) -> Tensor:
    """The gradient of the sum of all logits, (N, C, H, W), with the graph that a loss of it needs."""
    points = images.detach().requires_grad_()
    total = torch.stack([scale.sum() for scale in judge(points)]).sum()
    return torch.autograd.grad(total, points, create_graph=True)[0]
