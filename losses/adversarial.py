"""Adversarial losses of generator and discriminator, and penalty terms for the discriminator's loss."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar, Literal, Protocol

import torch
import torch.nn.functional as F
from torch import Tensor

from utils.device import at_least_float32


class ScaleOutput(Protocol):
    """The output of the discriminator at one scale, as in models.patch_discriminator.DiscriminatorOutput."""

    @property
    def features(self) -> Sequence[Tensor]: ...  # noqa: D102

    @property
    def logits(self) -> Tensor: ...  # noqa: D102


Outputs = Sequence[ScaleOutput]
"""The output of the discriminator at each scale, the full resolution first."""


@dataclass(frozen=True)
class Logits:
    """The discriminator's logits for N images, computed when a loss first reads them.

    discriminate: Returns the discriminator's outputs for the images.
    source: Condition that the discriminator sees together with the images, (N, C, H, W).
    """

    discriminate: Callable[[], Outputs]
    source: Tensor

    @cached_property
    def scales(self) -> list[Tensor]:
        """Logits (N, 1, H_s, W_s) of each scale, or (N, 1 + K, H, W) if the discriminator classifies pixels."""
        return [scale.logits for scale in self.discriminate()]


class AdversarialLoss:
    """Base class of adversarial losses. Discriminator and generator have one loss each, 0-d, float32 under autocast.

    Both losses apply `score` to real and to translated images separately. A subclass that compares images, or that has
    other terms, overrides both losses.

    over_scales: How the losses of the scales are combined; pix2pixHD uses the sum.
    classifies_pixels: Whether the logits must come from a discriminator that classifies pixels.
    """

    classifies_pixels: ClassVar[bool] = False

    def __init__(self, *, over_scales: Literal["sum", "mean"] = "sum") -> None:
        self.over_scales = over_scales

    def discriminator_loss(self, real: Logits, fake: Logits) -> dict[str, Tensor]:
        """Return the losses `fake` and `real`, and half of their sum as `total`, as in pix2pixHD and pix2pix."""
        parts = {"fake": self.score_scales(fake, is_real=False), "real": self.score_scales(real, is_real=True)}
        return {**parts, "total": 0.5 * (parts["fake"] + parts["real"])}

    def generator_loss(self, fake: Logits, real: Logits) -> Tensor:
        """Return the generator's loss, which is small if the logits call translated images real."""
        return self.score_scales(fake, is_real=True)

    def score_scales(self, logits: Logits, *, is_real: bool) -> Tensor:
        """Return the combined scores of all scales, 0-d."""
        return self.combine([self.score(scale, is_real=is_real) for scale in logits.scales])

    def score(self, logits: Tensor, *, is_real: bool) -> Tensor:
        """Return a 0-d score that is small if the logits (N, 1, H, W) agree with `is_real`."""
        raise NotImplementedError

    def combine(self, scales: Sequence[Tensor]) -> Tensor:
        """Return the sum or the mean of 0-d losses."""
        stacked = torch.stack(list(scales))
        return stacked.sum() if self.over_scales == "sum" else stacked.mean()


class LeastSquares(AdversarialLoss):
    """Squared distance of the logits from 1 (real) or 0 (translated), Mao et al. 2017."""

    def score(self, logits: Tensor, *, is_real: bool) -> Tensor:
        """Return the mean squared distance."""
        return F.mse_loss(logits, torch.full_like(logits, is_real))


class Vanilla(AdversarialLoss):
    """Binary cross-entropy with the non-saturating generator loss (Goodfellow et al. 2014)."""

    def score(self, logits: Tensor, *, is_real: bool) -> Tensor:
        """Return the mean cross entropy."""
        return F.binary_cross_entropy_with_logits(logits, torch.full_like(logits, is_real))


class Wasserstein(AdversarialLoss):
    """Mean of the logits (Arjovsky et al. 2017). This loss needs a gradient penalty."""

    def score(self, logits: Tensor, *, is_real: bool) -> Tensor:
        """Return the mean of the logits, negated for real images."""
        return (-1.0 if is_real else 1.0) * at_least_float32(logits).mean()


class Hinge(AdversarialLoss):
    """Hinge loss of the discriminator with margin 1, and negative mean as the generator's loss (Lim & Ye 2017)."""

    def score(self, logits: Tensor, *, is_real: bool) -> Tensor:
        """Return the mean of max(0, 1 - logits) for real images, or of max(0, 1 + logits) for translated images."""
        return F.relu(1.0 + (-1.0 if is_real else 1.0) * at_least_float32(logits)).mean()

    def generator_loss(self, fake: Logits, real: Logits) -> Tensor:
        """Return the negative mean of the logits."""
        return self.combine([-at_least_float32(scale).mean() for scale in fake.scales])


def mean_logits(scales: Sequence[Tensor]) -> Tensor:
    """Compute the mean logit of each scale, and return the mean of these values, 0-d. scales: (N, 1, H_s, W_s) each.

    For pixel classes, (N, 1 + K, H, W), return the mean log-odds that a pixel is real.
    """
    patches = [x if x.shape[1] == 1 else x[:, 1:].logsumexp(dim=1) - x[:, 0] for x in scales]
    return torch.stack([logits.mean() for logits in patches]).mean()


Discriminate = Callable[[Tensor], Sequence[Tensor]]
"""Maps images (N, C, H, W) to the logits of each scale."""


@dataclass(frozen=True)
class PenaltyInputs:
    """Images and logits from one pass of the discriminator, and functions for more passes.

    real, fake: Real and translated images before augmentation, detached, (N, C, H, W) in [-1, 1], same dtype.
    real_logits, fake_logits: Logits of this pass. fake_logits can be for older images from an image pool.
    discriminate: Returns the logits for images like `real` and `fake`, in float32.
    discriminate_mix: Returns the logits for mixed images, real inside a mask (N, 1, H, W) bool and translated outside.
    """

    real: Tensor
    fake: Tensor
    real_logits: Logits
    fake_logits: Logits
    discriminate: Discriminate
    discriminate_mix: Discriminate


@dataclass(frozen=True)
class Penalty:
    """A term of the discriminator's loss. The setting loss.NAME is the weight of term NAME.

    compute: Returns the term, 0-d.
    needs_float32: Whether the term has gradients of gradients, which need float32.
    needs_pairs: Whether the term needs a target of the same size for each translated image.
    classifies_pixels: True if the discriminator must classify pixels, False if it must not.
    share: Factor of the term, in addition to its weight; 0.5 for LabelMix, because the adversarial loss is halved too.
    every: The term is computed every `every` steps, and multiplied by this number (Karras et al. 2020, app. B).
    """

    compute: Callable[[PenaltyInputs], Tensor]
    needs_float32: bool = True
    needs_pairs: bool = False
    classifies_pixels: bool = False
    share: float = 1.0
    every: int = 1


def wgan_gradient_penalty(inputs: PenaltyInputs) -> Tensor:
    """Return the mean of (|gradient| - 1)² at random points between real and fake (Gulrajani et al. 2017, Eq. 3)."""
    real = inputs.real
    mix = torch.rand(len(real), 1, 1, 1, device=real.device, dtype=real.dtype)
    between = torch.lerp(inputs.fake, real, mix)
    norms = _gradient(inputs.discriminate, between).flatten(1).norm(dim=1)
    return (norms - 1).square().mean()


def r1_penalty(inputs: PenaltyInputs) -> Tensor:
    """Return half the mean squared norm of the gradient at real images, 0-d (Mescheder et al. 2018, Eq. 9)."""
    return 0.5 * _gradient(inputs.discriminate, inputs.real).flatten(1).square().sum(dim=1).mean()


def _gradient(discriminate: Discriminate, images: Tensor) -> Tensor:
    """Return the differentiable gradient of the sum of all logits with respect to the images, (N, C, H, W)."""
    points = images.detach().requires_grad_()
    total = torch.stack([scale.sum() for scale in discriminate(points)]).sum()
    return torch.autograd.grad(total, points, create_graph=True)[0]
