"""A discriminator in training: its passes, its loss, and the inputs of the generator's losses."""

from collections.abc import Callable
from dataclasses import dataclass, field

import torch
from torch import Tensor

from losses.adversarial import Logits, PenaltyInputs, mean_logits
from losses.diffaugment import DiffAugment, Transform
from losses.objective import DiscriminatorObjective, LossInputs, LossWeights, PixelWeights
from models.patch_discriminator import DiscriminatorOutput
from training.methods.image_pool import ImagePool
from training.optimizer_group import RunningMeans
from training.trained_network import TrainedNetwork

Outputs = list[DiscriminatorOutput]
"""The discriminator's output at each scale."""


@dataclass
class TrainedDiscriminator:
    """A discriminator with its loss.

    sees_source: Whether the network gets the source in addition to the image.
    joint: Whether real and translated images share a pass. False with batch norm, which would mix their statistics.
    means: Running means that receive the losses and logits, under the name `tag`.
    augmentation: Augmentation of the network's input. Images that are compared get the same transform.
    pool: Pool of earlier translations, which replace some of the current translations.
    min_side: Smallest height and width of an image that the network accepts, in pixels.
    """

    trained: TrainedNetwork
    objective: DiscriminatorObjective
    sees_source: bool
    joint: bool
    means: RunningMeans
    tag: str = "D"
    augmentation: DiffAugment = field(default_factory=DiffAugment)
    pool: ImagePool | None = None
    min_side: int = 1

    def loss(self, source: Tensor, fake: Tensor, real: Tensor) -> Tensor:
        """Return the loss, 0-d, on real images and translations, (N, C, H, W) in [-1, 1]. Translations get no gradient.

        source: Condition of the real images and of the translations, (N, C, H, W).
        """
        shown = self.shown(source, fake)
        transform = self.augmentation.draw(real)
        fakes, reals = self.outputs(transform, shown, (self._condition(source, real), real))
        return self.loss_of(source, fake, real, transform, fakes=fakes, reals=reals)

    def shown(self, source: Tensor, fake: Tensor) -> tuple[Tensor, Tensor]:
        """Return the condition and the translations to train on, without graph. A pool replaces some of the images."""
        condition = self._condition(source, fake)
        return self.pool.exchange(condition, fake) if self.pool else (condition, fake.detach())

    def outputs(self, transform: Transform, *pairs: tuple[Tensor, Tensor]) -> list[Outputs]:
        """Return the network's outputs for transformed pairs of a condition and an image, in one pass if possible."""
        discriminator = self.trained.network
        seen = {id(source): transform.of_source(source) for source, _ in pairs}  # pairs can share a source
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
        """Return the loss, 0-d, from the outputs for translations (new ones or from a pool) and for real images.

        source, fake, real: Images before the transform.
        """
        discriminate = self._bare(source, transform)
        seen = transform.of_source(source) if self.sees_source else source

        def discriminate_exactly(images: Tensor) -> list[Tensor]:
            with torch.autocast(images.device.type, enabled=False):  # the gradient of a gradient needs float32
                return [scale.logits for scale in discriminate(transform.of_image(images))]

        def discriminate_mix(mask: Tensor) -> list[Tensor]:
            mixed = torch.where(mask, transform.of_image(real), transform.of_image(fake.detach()))
            return [scale.logits for scale in discriminate(mixed)]

        logits = {"real": Logits(lambda: reals, seen), "fake": Logits(lambda: fakes, seen)}
        inputs = PenaltyInputs(
            real, fake.detach().to(real.dtype), logits["real"], logits["fake"], discriminate_exactly, discriminate_mix
        )
        terms = self.objective(inputs)
        self.means.add(terms, f"loss/{self.tag}/")
        self.means.add({name: mean_logits(one.scales) for name, one in logits.items()}, f"logits/{self.tag}/")
        return terms["total"]

    def loss_inputs(
        self,
        source: Tensor,
        fake: Tensor,
        target: Tensor,
        transform: Transform | None = None,
        *,
        style: tuple[Tensor, Tensor] | None = None,
        weights: Tensor | None = None,
        outside: PixelWeights | None = None,
    ) -> LossInputs:
        """Return the inputs of the generator's losses.

        transform: Transform of the discriminator's input. None: draw a transform.
        weights: Weights of the target's pixels, (N, 1, H, W) float32.
        """
        transform = transform or self.augmentation.draw(target)
        discriminate = self._bare(source, transform)

        def discriminate_target() -> Outputs:
            with torch.no_grad():
                return discriminate(transform.of_image(target))

        return LossInputs(
            fake,
            target,
            source=transform.of_source(source) if self.sees_source else source,
            discriminate_fake=lambda: discriminate(transform.of_image(fake)),
            discriminate_target=discriminate_target,
            style=style,
            weights=LossWeights.of(weights, transform.of_source),
            outside=outside,
        )

    def _condition(self, source: Tensor, image: Tensor) -> Tensor:
        """Return the network's first argument: the source, or a tensor without channels if the source is not used."""
        return source if self.sees_source else image[:, :0]

    def _bare(self, source: Tensor, transform: Transform) -> Callable[[Tensor], Outputs]:
        """Return the network as a function of transformed images, without DistributedDataParallel.

        DDP is not needed: the weights need no gradients, or another pass synchronizes the gradients.
        """
        network = self.trained.compute_copy
        seen = transform.of_source(source) if self.sees_source else None
        return lambda images: network(images[:, :0] if seen is None else seen, images)
