"""Penalties on the gradient of the discriminator with respect to the image."""

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

Discriminate = Callable[[Tensor], Sequence[Tensor]]
"""Maps images (N, C, H, W) to logits (N, 1, H_s, W_s) of each scale."""


def wgan_gradient_penalty(discriminate: Discriminate, fake: Tensor, real: Tensor) -> Tensor:
    """Return the mean squared distance of the gradient's norm from 1, at points between real and fake, 0-d.

    Source: Gulrajani et al. 2017, Eq. 3. fake, real: (N, C, H, W).
    """
    mix = torch.rand(len(real), 1, 1, 1, device=real.device, dtype=real.dtype)
    between = torch.lerp(fake.detach().to(real.dtype), real, mix)
    norms = _gradient(discriminate, between).flatten(1).norm(dim=1)
    return (norms - 1).square().mean()


def r1_penalty(discriminate: Discriminate, real: Tensor) -> Tensor:
    """Return half the mean squared norm of the gradient at real images, 0-d.

    Source: Mescheder et al. 2018, Eq. 9. real: (N, C, H, W).
    """
    return 0.5 * _gradient(discriminate, real).flatten(1).square().sum(dim=1).mean()


def _gradient(discriminate: Discriminate, images: Tensor) -> Tensor:
    """Return the gradient of the sum of all logits, (N, C, H, W), with the graph that a loss of it needs."""
    points = images.detach().requires_grad_()
    total = torch.stack([scale.sum() for scale in discriminate(points)]).sum()
    return torch.autograd.grad(total, points, create_graph=True)[0]
