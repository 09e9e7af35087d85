"""The adversarial losses, on the discriminator's logits, and penalties on its gradient with respect to the image."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor

from utils.precision import at_least_float32

GanMode = Literal["lsgan", "vanilla", "hinge", "wgan"]
ScaleReduction = Literal["sum", "mean"]
Discriminate = Callable[[Tensor], Sequence[Tensor]]
"""Maps images (N, C, H, W) to logits (N, 1, H_s, W_s) of each scale."""


@dataclass(frozen=True)
class AdversarialLoss:
    """Maps logits (N, 1, H_s, W_s) of each scale to a 0-d loss, float32 under autocast.

    gan_mode: lsgan, squared distance from 1 (real) or 0 (fake; Mao et al. 2017); vanilla, binary cross-entropy
        (Goodfellow et al. 2014, with the non-saturating loss of the generator); hinge (Lim & Ye 2017); wgan, the plain
        mean (Arjovsky et al. 2017), which wants a gradient penalty.
    over_scales: how the losses of the scales are combined; pix2pixHD takes the sum.
    """

    gan_mode: GanMode = "lsgan"
    over_scales: ScaleReduction = "sum"

    def generator(self, fake_logits: Sequence[Tensor]) -> Tensor:
        """Return the generator's loss, small where translated images pass for real."""
        if self.gan_mode == "hinge":
            return self._reduce([-at_least_float32(scale).mean() for scale in fake_logits])
        return self.discriminator(fake_logits, is_real=True)

    def discriminator(self, logits: Sequence[Tensor], *, is_real: bool) -> Tensor:
        """Return the discriminator's loss on real or on translated images, small where it recognises them."""
        return self._reduce([self._of_scale(scale, is_real) for scale in logits])

    def _of_scale(self, logits: Tensor, is_real: bool) -> Tensor:
        sign = -1.0 if is_real else 1.0
        match self.gan_mode:
            case "lsgan":
                return F.mse_loss(logits, torch.full_like(logits, is_real))
            case "vanilla":
                return F.binary_cross_entropy_with_logits(logits, torch.full_like(logits, is_real))
            case "hinge":
                return F.relu(1.0 + sign * at_least_float32(logits)).mean()
            case "wgan":
                return sign * at_least_float32(logits).mean()

    def _reduce(self, scales: Sequence[Tensor]) -> Tensor:
        stacked = torch.stack(list(scales))
        return stacked.sum() if self.over_scales == "sum" else stacked.mean()


def mean_logits(scales: Sequence[Tensor]) -> Tensor:
    """Return the mean over the patches of each scale, (N, 1, H_s, W_s), and then over the scales, 0-d.

    Of (N, 1 + K, H, W), logits of a segmentation, it is the mean log-odds that a pixel is real, not of class 0.
    """
    return torch.stack([(scale if scale.shape[1] == 1 else _real_log_odds(scale)).mean() for scale in scales]).mean()


def _real_log_odds(logits: Tensor) -> Tensor:
    return logits[:, 1:].logsumexp(dim=1) - logits[:, 0]


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
