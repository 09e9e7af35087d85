"""A discriminator in training: its passes and its loss, alike with and without pairs, and a pool of translations."""

from dataclasses import dataclass, field
from typing import Self

import torch
from torch import Tensor, nn

from configs import build
from losses.adversarial import mean_logits
from losses.augmentation import Augmentation, Transform
from losses.objective import DiscriminatorLosses, DiscriminatorLossInputs
from models.patch_discriminator import DiscriminatorOutput
from training.methods.method import NetworkBuilder
from training.running_means import RunningMeans
from training.trained_network import TrainedNetwork
from utils.precision import at_least_float32

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
    augmentation: Augmentation = field(default_factory=Augmentation)
    pool: "ImagePool | None" = None

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
            augmentation=build.build_augmentation(config, builder.world.device),
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


Pair = tuple[Tensor, Tensor]
"""The condition (1, C, H, W) of a translation, and the translation (1, 3, H, W)."""


class ImagePool:
    """Up to `size` earlier translations; half of the time one of them is shown in place of a present one.

    Shrivastava et al. 2017, section 2.3, as pix2pixHD and pix2pix have it: a new translation that is not shown takes
    the place of the one that is. Draws come from torch's global generator of the CPU.

    coin_first: whether a place is drawn only where the coin wants one, as CycleGAN has it.
    """

    def __init__(self, size: int, *, coin_first: bool = False) -> None:
        self._size = size
        self._coin_first = coin_first
        self._pairs: list[Pair] = []

    def exchange(self, source: Tensor, fake: Tensor) -> Pair:
        """Return what to show: (N, C, H, W) conditions and (N, 3, H, W) float32 translations without graph.

        In a batch, a translation is exchanged only for one of the same size. A batch of one takes any size.
        """
        pairs = zip(source.split(1), at_least_float32(fake.detach()).split(1), strict=True)
        sources, fakes = zip(*(self._exchange_one(pair, is_alone=len(source) == 1) for pair in pairs), strict=True)
        return torch.cat(sources), torch.cat(fakes)

    def _exchange_one(self, pair: Pair, is_alone: bool) -> Pair:
        if len(self._pairs) < self._size:
            self._pairs.append(_copy(pair))
            return pair
        place = self.draw_place()
        if place is None:
            return pair
        earlier, self._pairs[place] = self._pairs[place], _copy(pair)
        # the images of a batch have one size: an earlier one of another size is dropped without being shown
        return earlier if is_alone or earlier[0].shape == pair[0].shape else pair

    def draw_place(self) -> int | None:
        """Return the place of the translation to show; None: the present one."""
        if self._coin_first:
            return int(torch.randint(self._size, ())) if torch.rand(()) > 0.5 else None
        place = int(torch.randint(self._size, ()))
        return None if torch.rand(()) < 0.5 else place

    def state_dict(self) -> list[Pair]:
        """Return the pairs, on the CPU."""
        return [(source.cpu(), fake.cpu()) for source, fake in self._pairs]

    def load_state_dict(self, pairs: list[Pair], device: torch.device) -> None:
        """Load copies of the pairs that `state_dict` returned, or of as many as there is room for."""
        self._pairs = [_copy((source.to(device), fake.to(device))) for source, fake in pairs[: self._size]]


def _copy(pair: Pair) -> Pair:
    """Return a pair with memory of its own: a view would keep its batch in memory."""
    return pair[0].clone(), pair[1].clone()
