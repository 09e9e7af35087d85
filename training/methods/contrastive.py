"""Unpaired training in one direction, with a loss that compares patches of source and translation (CUT, FastCUT)."""

from collections.abc import Sequence
from copy import deepcopy
from dataclasses import dataclass, replace
from typing import NamedTuple, cast

import torch
from torch import Tensor, nn

from configs import build
from configs.build import image_sides
from configs.schema import Config, ContrastiveConfig
from losses.distances import patch_nce
from losses.objective import GeneratorObjective
from models import GENERATORS
from models.generator import Generator
from models.initialization import initialize
from models.patch_projection import PatchProjection, draw_positions
from training.methods.builder import MethodBuilder
from training.methods.discriminator import TrainedDiscriminator
from training.methods.method import Pair, StepBatches, Unpaired
from training.trained_network import TrainedNetwork, synchronized_passes
from utils.distributed import World
from utils.signatures import accepted

Features = Sequence[Tensor]
"""Features of images at each layer (tap) that the loss compares, (N, C, H, W)."""


class TappedGenerator(nn.Module):
    """A generator that also returns its features at some layers. torch.compile needs it to be a module."""

    def __init__(self, generator: nn.Module, taps: Sequence[str]) -> None:
        super().__init__()
        self.generator = cast(Generator, generator)
        self.taps = taps

    def forward(self, images: Tensor) -> tuple[Tensor, list[Tensor]]:
        """Return the translations and the features of images (N, C, H, W)."""
        return self.generator.translate_with_features(images, self.taps)


class _Translation(NamedTuple):
    """Translations and detached features of images. If `flipped`, only `fake` was computed from mirrored images."""

    fake: Tensor
    keys: Features
    flipped: bool


@dataclass
class Contrastive(Unpaired):
    """A generator, the discriminator of the target domain, and the projection of the generator's features.

    The discriminator is updated first, then the generator and the projection together (Park et al. 2020).

    generator: Generator. Its `network` is a TappedGenerator.
    objective: Losses of the translations in addition to the contrastive loss.
    optimizers: Group "generator" with the generator and the projection, and group "discriminator".
    taps: Names of the generator's layers whose features are compared.
    shares_encoder: Whether the pass that translates the sources also provides their features. This is false with
        dropout or batch norm, because a separate pass for the features would then compute other values.
    is_flipped: Whether the next pass mirrors its images, or None if this has not been decided yet.
    """

    generator: TrainedNetwork
    discriminator: TrainedDiscriminator
    objective: GeneratorObjective
    projection: TrainedNetwork
    contrastive: ContrastiveConfig
    taps: Sequence[str]
    shares_encoder: bool
    is_flipped: bool | None = None

    def draw_ahead(self, batches: StepBatches) -> object:
        """Decide at random whether the step's only pass mirrors its images. Each case needs a separate CUDA graph."""
        if not self.contrastive.flip_equivariance:
            return ()
        if sum(map(len, batches)) > 1:
            return None
        self.is_flipped = draw_coin() < 0.5
        return self.is_flipped

    def settle(self) -> None:
        """Clear the decision of `draw_ahead`."""
        self.is_flipped = None

    def update(self, groups: Sequence[Sequence[Pair]]) -> None:
        """Update the discriminator with each group, and the generator and the projection with the last group."""
        *others, last = groups
        for passes in others:
            self._update_discriminator(passes, keeps_graph=False)
        self._update_generator(last, self._update_discriminator(last, keeps_graph=len(last) == 1))

    def losses(self, pair: Pair) -> tuple[Tensor, Tensor]:
        """Return the losses of generator and discriminator, 0-d each, for one pass."""
        with self.precision.autocast():
            made = self._translate(pair.source, flipped=False)
            loss = self._source_terms(pair, made)["total"]
            if self.contrastive.identity:
                loss = loss + self._target_terms(pair, made)["total"]
            return loss, self.discriminator.loss(pair.source, made.fake, pair.target)

    def _update_discriminator(self, passes: Sequence[Pair], *, keeps_graph: bool) -> list[_Translation]:
        """Update the discriminator. Return the translations of each pass."""
        made = []
        for pair in synchronized_passes(passes, self.discriminator.trained):
            flipped = self.is_flipped
            if flipped is None:
                flipped = self.contrastive.flip_equivariance and draw_coin() < 0.5
            with self.precision.autocast():
                with torch.set_grad_enabled(keeps_graph):
                    made.append(self._translate(pair.source, flipped))
                loss = self.discriminator.loss(pair.source, made[-1].fake, pair.target)
            self.optimizers["discriminator"].backward(loss / len(passes))
        self.optimizers["discriminator"].step("discriminator", self.means)
        return made

    def _update_generator(self, passes: Sequence[Pair], made: Sequence[_Translation]) -> None:
        """Update generator and projection. Each backward pass is for one domain, so only one autograd graph is kept."""
        sides = ("source", "target") if self.contrastive.identity else ("source",)
        halves = [(pair, kept, side) for pair, kept in zip(passes, made, strict=True) for side in sides]
        terms: dict[str, Tensor] = {}
        for pair, kept, side in synchronized_passes(halves, self.generator, self.projection):
            with self.precision.autocast():
                if side == "target":
                    found = self._target_terms(pair, kept)
                else:
                    translation = kept if len(passes) == 1 else self._translate(pair.source, kept.flipped)
                    found, terms = self._source_terms(pair, translation), {}
            self.optimizers["generator"].backward(found["total"] / len(passes))
            found = {name: term.detach() for name, term in found.items()}
            terms |= found | {"total": found["total"] + terms.get("total", 0.0)}
            if side == sides[-1]:
                self.means.add(terms, "loss/G/")
        self.optimizers["generator"].step("generator", self.means)

    def _translate(self, images: Tensor, flipped: bool) -> _Translation:
        fake, features = self.generator.network(images.flip(-1) if flipped else images)
        if flipped or not self.shares_encoder:
            with torch.no_grad():
                return _Translation(fake, self._encode(images), flipped)
        return _Translation(fake, [tap.detach() for tap in features], flipped)

    def _encode(self, images: Tensor) -> Features:
        return cast(Generator, self.generator.compute_copy).features(images, self.taps)

    def _source_terms(self, pair: Pair, made: _Translation) -> dict[str, Tensor]:
        """Return the losses of the translations of the sources."""
        inputs = self.discriminator.loss_inputs(pair.source, made.fake, pair.target, outside=pair.outside)
        if made.flipped:
            inputs = replace(inputs, fake=made.fake.flip(-1))
        return self.objective(inputs, {"contrastive": (lambda _: self._contrastive_loss(made), self._weight)})

    def _target_terms(self, pair: Pair, made: _Translation) -> dict[str, Tensor]:
        """Return the loss of the targets' translations. Targets are mirrored if the sources were mirrored."""
        identity = self._contrastive_loss(self._translate(pair.target, made.flipped))
        return {"identity": identity, "total": self._weight * identity}

    @property
    def _weight(self) -> float:
        """The weight of the contrastive loss, halved if the loss is averaged over sources and targets."""
        return self.contrastive.weight * (0.5 if self.contrastive.identity else 1.0)

    def _contrastive_loss(self, made: _Translation) -> Tensor:
        """Return the loss between features of translations and of their sources, 0-d, averaged over the taps."""
        queries, keys = [q.flip(-1) if made.flipped else q for q in self._encode(made.fake)], made.keys
        positions = draw_positions(queries, self.contrastive.n_patches)
        with torch.no_grad():
            key_vectors = self.projection.compute_copy(keys, positions)
        vectors = zip(self.projection.network(queries, positions), key_vectors, strict=True)
        losses = [patch_nce(q, k, n_groups=len(made.fake)) for q, k in vectors]
        return torch.stack(losses).mean()


def draw_coin() -> float:
    """Return a random number in [0, 1) that depends on torch's CPU random state, which checkpoints hold."""
    return float(torch.rand(()))


def _build_projection(config: Config, generator: Generator, taps: Sequence[str]) -> PatchProjection:
    """Return a projection with random weights for the generator's features at `taps`."""
    side = 4 * image_sides(config).minimum
    images = torch.empty(1, config.data.n_source_channels, side, side, device="meta")
    features = deepcopy(generator).to("meta").features(images, taps)
    projection = PatchProjection([feature.shape[1] for feature in features], channels=config.contrastive.channels)
    initialize(projection, config.init.kind, config.init.gain, zero_biases=True)
    return projection


def build_contrastive(config: Config, world: World) -> Contrastive:
    """Return networks, optimizers and losses with initial weights, on the device of `world`."""
    torch.manual_seed(config.run.seed)
    builder, kind = MethodBuilder(config, world), GENERATORS[config.generator.name]
    taps = kind.compared_layers(**accepted(kind.compared_layers, vars(config.generator)))
    modules = build.build_generator(config), build.build_discriminator(config)
    projection_module = _build_projection(config, cast(Generator, modules[0]), taps)
    torch.manual_seed(config.run.seed + world.rank)  # each process draws its own patches
    generator = builder.network(modules[0], "generator", lambda network: TappedGenerator(network, taps))
    projection = builder.network(projection_module, "projection")
    discriminator = builder.discriminator(modules[1])
    return Contrastive(
        generator=generator,
        discriminator=discriminator,
        objective=build.build_generator_objective(config, world.device),
        projection=projection,
        optimizers={
            "generator": builder.group({"generator": generator, "projection": projection}),
            "discriminator": builder.group({"discriminator": discriminator.trained}),
        },
        contrastive=config.contrastive,
        taps=taps,
        shares_encoder=config.generator.norm == "instance" and not config.generator.dropout,
        **builder.common,
    )
