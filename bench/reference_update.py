"""A plain update in the manner of pix2pixHD, with which training steps are compared.

Three passes of the discriminator, which gets source and image concatenated; float32, contiguous, eager, Adam without
fusion; the generator's loss has gradients in the discriminator too. The networks are this project's, so that both sides
compute the same.
"""

from dataclasses import dataclass
from typing import Any, cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.optim import Adam

from losses.perceptual import LAYER_WEIGHTS
from models.patch_discriminator import DiscriminatorOutput, MultiscalePatchDiscriminator, PatchDiscriminator

Outputs = list[DiscriminatorOutput]


@dataclass
class ReferenceUpdate:
    """Networks, optimizers and losses. vgg: returns a list of features; None for no perceptual loss."""

    generator: nn.Module
    discriminator: nn.Module
    vgg: nn.Module | None
    l1: float
    autocast_dtype: torch.dtype | None = None

    def __post_init__(self) -> None:
        settings: dict[str, Any] = {"lr": 2e-4, "betas": (0.5, 0.999), "foreach": False, "fused": False}
        self.generator_optimizer = Adam(self.generator.parameters(), **settings)
        self.discriminator_optimizer = Adam(self.discriminator.parameters(), **settings)

    def step(self, source: Tensor, target: Tensor) -> None:
        """Update both networks on a source, (N, C, H, W), and a target, (N, 3, H, W)."""
        device_type = source.device.type
        with torch.autocast(device_type, dtype=self.autocast_dtype, enabled=self.autocast_dtype is not None):
            fake = self.generator(source)
            fake_for_d = self._discriminate(source, fake.detach())
            real = self._discriminate(source, target)
            fake_for_g = self._discriminate(source, fake)
            d_loss = 0.5 * (_lsgan(fake_for_d, 0.0) + _lsgan(real, 1.0))
            g_loss = _lsgan(fake_for_g, 1.0) + 10 * _feature_matching(fake_for_g, real)
            if self.vgg is not None:
                pairs = zip(self.vgg(fake), self.vgg(target), LAYER_WEIGHTS, strict=True)
                g_loss = g_loss + 10 * sum(weight * F.l1_loss(f, t.detach()) for f, t, weight in pairs)
            if self.l1:
                g_loss = g_loss + self.l1 * F.l1_loss(fake, target)
        self.generator_optimizer.zero_grad()
        g_loss.backward()
        self.generator_optimizer.step()
        self.discriminator_optimizer.zero_grad()
        d_loss.backward()
        self.discriminator_optimizer.step()

    def _discriminate(self, source: Tensor, image: Tensor) -> Outputs:
        """Return the discriminator's outputs for source and image, concatenated."""
        x = torch.cat([source, image], dim=1)
        outputs, discriminator = [], cast(MultiscalePatchDiscriminator, self.discriminator)
        scales = cast(list[PatchDiscriminator], discriminator.scales)
        for level, scale in enumerate(scales):
            x = discriminator.pool(x) if level else x
            (first, activation), *inner = cast(list[nn.Sequential], scale.layers)
            joined = cast(nn.Conv2d, first)
            features = [activation(F.conv2d(x, joined.weight, joined.bias, joined.stride, joined.padding))]
            for layer in inner:
                features.append(layer(features[-1]))
            outputs.append(DiscriminatorOutput(features, scale.head(features[-1])))
        return outputs


def _lsgan(outputs: Outputs, aim: float) -> Tensor:
    losses = [F.mse_loss(scale.logits, torch.full_like(scale.logits, aim)) for scale in outputs]
    return torch.stack(losses).sum()


def _feature_matching(fake: Outputs, real: Outputs) -> Tensor:
    distances = [
        F.l1_loss(f, r.detach()) * 4 / len(fake_scale.features) / len(fake)
        for fake_scale, real_scale in zip(fake, real, strict=True)
        for f, r in zip(fake_scale.features, real_scale.features, strict=True)
    ]
    return torch.stack(distances).sum()
