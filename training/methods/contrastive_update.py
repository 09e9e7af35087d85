"""CUT's update: a generator against a discriminator of images, and for patches that resemble those of the source."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import NamedTuple

import torch
from torch import Tensor, nn

from losses.adversarial import AdversarialLoss, mean_logits
from losses.augmentation import Augmentation
from losses.loss_inputs import DiscriminatorLosses, DiscriminatorLossInputs
from losses.patch_nce import patch_nce
from models.global_generator import GlobalGenerator
from models.patch_discriminator import DiscriminatorOutput
from models.patch_projection import draw_positions
from training.optimizer_group import OptimizerGroup
from training.running_means import RunningMeans
from training.trained_network import TrainedNetwork
from utils.distributed import synchronized
from utils.precision import Precision


class Pair(NamedTuple):
    """Images of the two sides that do not belong together: (N, C, H, W) float32 in [-1, 1] each."""

    source: Tensor
    target: Tensor


@dataclass(frozen=True)
class ContrastiveLoss:
    """The settings of the contrastive loss.

    taps: layers of the generator whose features are compared. weight: of the loss. n_patches: per tap and image.
    temperature: of the softmax. identity: whether targets that are translated are compared with themselves too (CUT).
    flip_equivariance: whether half of the updates translate mirrored sources (FastCUT).
    all_negatives: whether the patches of the other images of a batch are negatives too.
    """

    taps: Sequence[str]
    weight: float = 1.0
    n_patches: int = 256
    temperature: float = 0.07
    identity: bool = True
    flip_equivariance: bool = False
    all_negatives: bool = False


class TappedGenerator(nn.Module):
    """A generator that also returns its features at some layers, as one module to wrap and to compile."""

    def __init__(self, generator: GlobalGenerator, taps: Sequence[str]) -> None:
        super().__init__()
        self.generator = generator
        self.taps = taps

    def forward(self, images: Tensor) -> tuple[Tensor, list[Tensor]]:
        """Return the translations and the features of images (N, C, H, W)."""
        return self.generator.translate_with_features(images, self.taps)


@dataclass(frozen=True)
class _Translation:
    """The translations of a pair, and its features.

    fake: of the source. identity: of the target; None without that term.
    keys: the features of the source, and of the target behind it, at each tap, without graph.
    flipped: whether the source was mirrored; its keys are not.
    """

    fake: Tensor
    identity: Tensor | None
    keys: list[Tensor]
    flipped: bool


@dataclass
class ContrastiveUpdate:
    """The update of CUT and FastCUT (Park et al. 2020): the discriminator steps first, then generator and projection.

    generator: its `network` is a TappedGenerator.
    optimizers: groups "generator", which holds the projection too, since their loss is one sum; and "discriminator".
    shares_encoder: whether the keys may come from the pass that translates; not where two passes of the generator
        differ, as with dropout, or batch norm's statistics of other images.
    """

    generator: TrainedNetwork
    discriminator: TrainedNetwork
    projection: TrainedNetwork
    optimizers: Mapping[str, OptimizerGroup]
    contrastive: ContrastiveLoss
    adversarial: AdversarialLoss
    adversarial_weight: float
    discriminator_objective: DiscriminatorLosses
    precision: Precision
    shares_encoder: bool = True
    augmentation: Augmentation = field(default_factory=Augmentation)
    means: RunningMeans = field(default_factory=RunningMeans)

    def step(self, groups: Sequence[Sequence[Pair]]) -> None:
        """Update generator and projection from the last of `groups`, and the discriminator from each of them."""
        with ExitStack() as stack:
            for group in self.optimizers.values():
                stack.enter_context(group.undoing_statistics())
            made = [self._update_discriminator(passes) for passes in groups]
            self._update_generator(groups[-1], made[-1])

    def _update_discriminator(self, passes: Sequence[Pair]) -> list[_Translation]:
        """Return the translations, with their graph where there is one pass alone, or as its coin fell."""
        made = []
        for pair, network in self._synchronized(passes, self.discriminator):
            flipped = self.contrastive.flip_equivariance and bool(torch.rand(()) < 0.5)
            with self.precision.autocast(), torch.set_grad_enabled(len(passes) == 1):
                translation = self._translate(pair, flipped)
            with self.precision.autocast():
                loss = self._discriminator_loss(network, translation.fake.detach(), pair.target)
            self.optimizers["discriminator"].backward(loss / len(passes))
            made.append(translation)
        self.optimizers["discriminator"].step()
        return made

    def _update_generator(self, passes: Sequence[Pair], made: Sequence[_Translation]) -> None:
        for number, (pair, _) in enumerate(self._synchronized(passes, self.generator, self.projection)):
            with self.precision.autocast():
                kept = made[number] if len(passes) == 1 else self._translate(pair, made[number].flipped)
                loss = self._generator_loss(kept)
            self.optimizers["generator"].backward(loss / len(passes))
        self.optimizers["generator"].step()

    def _translate(self, pair: Pair, flipped: bool) -> _Translation:
        images = torch.cat(pair) if self.contrastive.identity else pair.source
        translations, features = self.generator.network(images.flip(-1) if flipped else images)
        keys = [feature.detach() for feature in features]
        if flipped or not self.shares_encoder:
            with torch.no_grad():
                keys = self._encode(images)
        fake, *identity = translations.split(len(pair.source))
        return _Translation(fake, identity[0] if identity else None, keys, flipped)

    def _encode(self, images: Tensor) -> list[Tensor]:
        generator = self.generator.compute_copy
        assert isinstance(generator, GlobalGenerator), type(generator)
        return generator.features(images, self.contrastive.taps)

    def _discriminator_loss(self, discriminator: nn.Module, fake: Tensor, real: Tensor) -> Tensor:
        transform, nothing = self.augmentation.draw(real), real[:, :0]

        def logits(images: Tensor) -> list[Tensor]:
            outputs: list[DiscriminatorOutput] = discriminator(nothing, transform.of_image(images))
            return [scale.logits for scale in outputs]

        of_fake, of_real = logits(fake), logits(real)
        terms = self.discriminator_objective(
            DiscriminatorLossInputs(
                fake_logits=of_fake,
                real_logits=of_real,
                source=nothing,
                fake=fake,
                real=real,
                discriminate=logits,
                discriminate_mix=lambda mask: logits(torch.where(mask, real, fake)),
            )
        )
        self.means.add(terms, "loss/D/")
        self.means.add({"fake": mean_logits(of_fake), "real": mean_logits(of_real)}, "logits/D/")
        return terms["total"]

    def _generator_loss(self, made: _Translation) -> Tensor:
        transform = self.augmentation.draw(made.fake)
        outputs = self.discriminator.compute_copy(made.fake[:, :0], transform.of_image(made.fake))
        terms = {"adversarial": self.adversarial.generator([scale.logits for scale in outputs])}
        translations = made.fake if made.identity is None else torch.cat([made.fake, made.identity])
        queries = self._encode(translations)
        if made.flipped:
            queries = [feature.flip(-1) for feature in queries]
        n = len(made.fake)
        names = ["contrastive", "identity"][: len(translations) // n]
        for number, name in enumerate(names):
            rows = slice(number * n, (number + 1) * n)
            terms[name] = self._contrastive_loss([q[rows] for q in queries], [k[rows] for k in made.keys])
        contrastive = torch.stack([terms[name] for name in names]).mean()
        terms["total"] = self.adversarial_weight * terms["adversarial"] + self.contrastive.weight * contrastive
        self.means.add(terms, "loss/G/")
        return terms["total"]

    def _contrastive_loss(self, queries: list[Tensor], keys: list[Tensor]) -> Tensor:
        """Return the mean over the taps, 0-d, of features of N translations and of their sources."""
        settings, n_images = self.contrastive, len(queries[0])
        positions = draw_positions(queries, settings.n_patches)
        with torch.no_grad():
            key_vectors = self.projection.compute_copy(keys, positions)
        vectors = zip(self.projection.network(queries, positions), key_vectors, strict=True)
        n_groups = 1 if settings.all_negatives else n_images
        losses = [patch_nce(q, k, n_groups=n_groups, temperature=settings.temperature) for q, k in vectors]
        return torch.stack(losses).mean()

    @staticmethod
    def _synchronized(passes: Sequence[Pair], *networks: TrainedNetwork) -> Iterator[tuple[Pair, nn.Module]]:
        """Yield each pass and the first network; the processes average these networks' gradients in the last one."""
        for number, pair in enumerate(passes, start=1):
            with ExitStack() as stack:
                for network in networks:
                    stack.enter_context(synchronized(network.network, number == len(passes)))
                yield pair, networks[0].network
