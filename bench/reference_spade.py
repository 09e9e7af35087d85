"""SPADE's update written plainly, with which training steps are compared: float32, eager, Adam without fusion.

The generator steps first. The discriminator then steps on a second translation, of the new generator (Park et al. 2019;
a recorded training of the original has the same losses and weights). The networks are this project's.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.optim import Adam

from losses.perceptual import LAYER_WEIGHTS
from models.patch_discriminator import DiscriminatorOutput

Outputs = list[DiscriminatorOutput]


@dataclass
class ReferenceSpadeUpdate:
    """Networks, losses and optimizers. vgg: returns a list of features; None for no perceptual loss."""

    generator: nn.Module
    discriminator: nn.Module
    vgg: nn.Module | None
    autocast_dtype: torch.dtype | None = None
    learning_rates: tuple[float, float] = (1e-4, 4e-4)
    betas: tuple[float, float] = (0.0, 0.9)

    def __post_init__(self) -> None:
        settings: dict[str, Any] = {"betas": self.betas, "foreach": False, "fused": False}
        of_generator, of_discriminator = self.learning_rates
        self.generator_optimizer = Adam(self.generator.parameters(), lr=of_generator, **settings)
        self.discriminator_optimizer = Adam(self.discriminator.parameters(), lr=of_discriminator, **settings)

    def step(self, source: Tensor, target: Tensor) -> dict[str, Tensor]:
        """Update both networks on a source, (N, C, H, W), and a target, (N, 3, H, W); return the losses, 0-d each."""
        with self._autocast(source.device):
            losses = self._generator_losses(source, target)
        _step(self.generator_optimizer, torch.stack([*losses.values()]).sum())
        with self._autocast(source.device):
            of_discriminator = self._discriminator_losses(source, target)
        _step(self.discriminator_optimizer, torch.stack([*of_discriminator.values()]).sum())
        return losses | of_discriminator

    def _generator_losses(self, source: Tensor, target: Tensor) -> dict[str, Tensor]:
        fake = self.generator(source)
        fakes, reals = self._discriminate(source, fake, target)
        losses = {"GAN": -_mean(fakes, lambda logits: logits), "GAN_Feat": 10 * _feature_matching(fakes, reals)}
        if self.vgg is not None:
            pairs = zip(self.vgg(fake), self.vgg(target), LAYER_WEIGHTS, strict=True)
            losses["VGG"] = 10 * torch.stack([weight * F.l1_loss(f, t.detach()) for f, t, weight in pairs]).sum()
        return losses

    def _discriminator_losses(self, source: Tensor, target: Tensor) -> dict[str, Tensor]:
        with torch.no_grad():
            fake = self.generator(source)
        fakes, reals = self._discriminate(source, fake, target)
        return {
            "D_Fake": _mean(fakes, lambda logits: F.relu(1 + logits)),
            "D_real": _mean(reals, lambda logits: F.relu(1 - logits)),
        }

    def _autocast(self, device: torch.device) -> torch.autocast:
        return torch.autocast(device.type, dtype=self.autocast_dtype, enabled=self.autocast_dtype is not None)

    def _discriminate(self, source: Tensor, fake: Tensor, real: Tensor) -> tuple[Outputs, Outputs]:
        """Return the outputs for the fake and for the real images, which share a pass."""
        scales = [scale.chunk(2) for scale in self.discriminator(source, torch.cat([fake, real]))]
        return [fakes for fakes, _ in scales], [reals for _, reals in scales]


def _mean(outputs: Outputs, hinge: Callable[[Tensor], Tensor]) -> Tensor:
    return torch.stack([hinge(scale.logits).mean() for scale in outputs]).mean()


def _feature_matching(fakes: Outputs, reals: Outputs) -> Tensor:
    distances = [
        F.l1_loss(fake, real.detach()) / len(fakes)
        for fake_scale, real_scale in zip(fakes, reals, strict=True)
        for fake, real in zip(fake_scale.features, real_scale.features, strict=True)
    ]
    return torch.stack(distances).sum()


def _step(optimizer: Adam, loss: Tensor) -> None:
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
