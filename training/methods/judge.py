"""A discriminator in training: its passes and its loss, alike with and without pairs."""

from dataclasses import dataclass, field
from typing import Self

import torch
from torch import Tensor, nn

from configs import build
from losses.adversarial import mean_logits
from losses.diffaugment import DiffAugment, Transform
from losses.objective import DiscriminatorLosses, DiscriminatorLossInputs
from models.patch_discriminator import DiscriminatorOutput
from training.methods.image_pool import ImagePool
from training.methods.method import NetworkBuilder
from training.running_means import RunningMeans
from training.trained_network import TrainedNetwork

Outputs = list[DiscriminatorOutput]
"""The discriminator's output at each scale."""


@dataclass
class Judge:
    """A discriminator with its loss.

    joint: whether real and translated images share a pass; not where its norm would mix their statistics.
    means, tag: where its losses and logits are added, and under which name.
    augmentation: of what it sees; images that are compared share a transform.
    pool: earlier translations, some of which it is trained on in place of the present ones.
    """

    trained: TrainedNetwork
    objective: DiscriminatorLosses
    joint: bool
    means: RunningMeans
    tag: str = "D"
    augmentation: DiffAugment = field(default_factory=DiffAugment)
    pool: ImagePool | None = None

    @classmethod
    def of(cls, builder: NetworkBuilder, module: nn.Module, means: RunningMeans, tag: str = "D") -> Self:
        """Return a discriminator with its loss, and with a pool if the settings want one."""
        config = builder.config
        coin_first = not config.method.declaration.discriminates_pairs
        return cls(
            trained=builder.network(module, "discriminator"),
            objective=build.build_discriminator_objective(config),
            joint=config.discriminator.norm == "instance",
            means=means,
            tag=tag,
            augmentation=build.build_augmentation(config),
            pool=ImagePool(config.train.pool_size, coin_first=coin_first) if config.train.pool_size else None,
        )

    def outputs(self, transform: Transform, *pairs: tuple[Tensor, Tensor]) -> list[Outputs]:
        """Return the outputs for each pair of a source and an image, transformed; from one pass if that is the same."""
        discriminator = self.trained.network
        seen = {id(source): transform.of_source(source) for source, _ in pairs}  # one source has several images
        sources = [seen[id(source)] for source, _ in pairs]
        images = [transform.of_image(image) for _, image in pairs]
        if not self.joint or len({image.shape for image in images}) > 1:
            return [discriminator(source, image) for source, image in zip(sources, images, strict=True)]
        source = sources[0] if all(other is sources[0] for other in sources) else torch.cat(sources)
        scales = [scale.chunk(len(pairs)) for scale in discriminator(source, torch.cat(images))]
        return [list(outputs) for outputs in zip(*scales, strict=True)]

    def loss_of(
        self, source: Tensor, fake: Tensor, real: Tensor, transform: Transform, *, fakes: Outputs, reals: Outputs
    ) -> Tensor:
        """Return the discriminator's loss, 0-d.

        source, fake, real: before the transform. fakes, reals: outputs for the two, or for other translations.
        """
        condition, discriminator = transform.of_source(source), self.trained.compute_copy

        def discriminate(images: Tensor) -> list[Tensor]:
            # for penalties: the gradient of a gradient wants float32
            with torch.autocast(images.device.type, enabled=False):
                return [scale.logits for scale in discriminator(condition, transform.of_image(images))]

        def discriminate_mix(mask: Tensor) -> list[Tensor]:
            shown, translated = transform.of_image(real), transform.of_image(fake.detach())
            return [scale.logits for scale in discriminator(condition, torch.where(mask, shown, translated))]

        logits = {"real": [scale.logits for scale in reals], "fake": [scale.logits for scale in fakes]}
        terms = self.objective(
            DiscriminatorLossInputs(
                fake_logits=logits["fake"],
                real_logits=logits["real"],
                source=condition,
                fake=fake,
                real=real,
                discriminate=discriminate,
                discriminate_mix=discriminate_mix,
            )
        )
        self.means.add(terms, f"loss/{self.tag}/")
        self.means.add({name: mean_logits(scales) for name, scales in logits.items()}, f"logits/{self.tag}/")
        return terms["total"]
