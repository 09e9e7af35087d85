"""The adversarial step: how generator and discriminator are trained against each other, pass by pass."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor, nn

from configs import build
from configs.schema import Config
from data.batch import Batch
from data.conditioning import Conditioning
from losses.objective import DiscriminatorObjective, GeneratorObjective, Translation
from models.patch_discriminator import DiscriminatorOutput
from training.image_pool import ImagePool
from training.running_means import RunningMeans
from training.trainable import TrainableNetwork, Wrap, make_adam
from utils.compilation import compiled
from utils.distributed import World, synchronized
from utils.errors import ConfigError
from utils.precision import Precision, choose_precision


@dataclass(frozen=True)
class ModelInputs:
    """What a pass works on.

    source: (N, C, H, W) condition that both networks see. target: (N, 3 or 1, H, W) in [-1, 1].
    generator_inputs: what the generator is called with: the source, and instance features or what they are made from.
    names: of the N samples.
    """

    source: Tensor
    target: Tensor
    generator_inputs: tuple[Tensor, ...]
    names: tuple[str, ...] = ()


@dataclass
class AdversarialUpdate:
    """Generator against discriminator, and what both are judged by."""

    generator: TrainableNetwork
    discriminator: TrainableNetwork
    objective: GeneratorObjective
    discriminator_objective: DiscriminatorObjective
    precision: Precision
    conditioning: Conditioning
    judges_jointly: bool
    """Whether real and translated images share a pass of the discriminator; not where it mixes their statistics."""
    keeps_graph: bool = True
    """Whether one judgement of a translation serves the losses of both networks."""
    pool: ImagePool | None = None
    means: RunningMeans = field(default_factory=RunningMeans)

    @property
    def players(self) -> dict[str, TrainableNetwork]:
        """Both players by name."""
        return {"generator": self.generator, "discriminator": self.discriminator}

    @property
    def n_bytes(self) -> int:
        """What weights and Adam's two moments take, in memory and in a checkpoint."""
        parameters = [p for player in self.players.values() for p in player.module.parameters()]
        return sum(3 * parameter.numel() * parameter.element_size() for parameter in parameters)

    def step(self, taken: Sequence[Sequence[Batch]]) -> None:
        """An update of the generator from the last batches of `taken`, and one of the discriminator from each."""
        for batches in taken[:-1]:
            self.discriminator_update(batches)
        if self.keeps_graph:
            self.joint_update(taken[-1])
        else:
            self.alternating_update(taken[-1])

    def joint_update(self, batches: Sequence[Batch]) -> None:
        """pix2pixHD's update: the translation is judged once, and the losses of both networks use that graph.

        The discriminator steps after both backward passes, because it changes weights that the other's graph needs.
        """
        for scene in self._passes(batches):
            self._joint_pass(scene, share=1 / len(batches))
        self._update("discriminator")
        self._update("generator")

    def _joint_pass(self, scene: ModelInputs, share: float) -> None:
        with self.precision.autocast():
            fake = self.generator.network(*scene.generator_inputs)
            pairs = [(scene.source, fake), (scene.source, scene.target)]
            if self.pool:
                pairs.append(self.pool.exchange(scene.source, fake))
            fake_judged, real_judged, *pooled = self._judge(*pairs)
            d_loss = self._discriminator_loss(scene, fake, pooled[0] if pooled else fake_judged, real_judged)
            g_loss = self._generator_loss(scene, fake, fake_judged, real_judged)
        self.discriminator.backward(d_loss * share, retain_graph=True)
        self.generator.backward(g_loss * share)

    def discriminator_update(self, batches: Sequence[Batch]) -> None:
        """An update of the discriminator alone, for more of them than of the generator."""
        for scene in self._passes(batches):
            self._discriminator_pass(scene, share=1 / len(batches), keeps_graph=False)
        self._update("discriminator")

    def alternating_update(self, batches: Sequence[Batch]) -> None:
        """pix2pix's update: the discriminator steps first, then judges the translation again for the generator.

        With one batch the translation is made once; more graphs than one would cost the memory that accumulation is
        there to save, so with more it is made twice.
        """
        keeps_graph = len(batches) == 1
        kept_fake: Tensor | None = None
        for scene in self._passes(batches):
            fake = self._discriminator_pass(scene, share=1 / len(batches), keeps_graph=keeps_graph)
            kept_fake = fake if keeps_graph else None
        self._update("discriminator")
        for scene in self._passes(batches):
            self._generator_pass(scene, share=1 / len(batches), fake=kept_fake)
        self._update("generator")

    def _discriminator_pass(self, scene: ModelInputs, share: float, keeps_graph: bool) -> Tensor:
        with self.precision.autocast():
            with torch.set_grad_enabled(keeps_graph):
                fake: Tensor = self.generator.network(*scene.generator_inputs)
            judged = self.pool.exchange(scene.source, fake) if self.pool else (scene.source, fake.detach())
            fake_judged, real_judged = self._judge(judged, (scene.source, scene.target))
            d_loss = self._discriminator_loss(scene, fake, fake_judged, real_judged)
        self.discriminator.backward(d_loss * share)
        return fake

    def _generator_pass(self, scene: ModelInputs, share: float, fake: Tensor | None) -> None:
        # The bare discriminator: its own gradients are not wanted, so no process waits for them.
        judge = self.discriminator.computing
        fake_judged: list[DiscriminatorOutput] = []
        real_judged: list[DiscriminatorOutput] = []
        with self.precision.autocast():
            fake = self.generator.network(*scene.generator_inputs) if fake is None else fake
            if self.objective.needs("adversarial") or self.objective.needs("feature_matching"):
                fake_judged = judge(scene.source, fake)
            if self.objective.needs("feature_matching"):
                with torch.no_grad():
                    real_judged = judge(scene.source, scene.target)
            g_loss = self._generator_loss(scene, fake, fake_judged, real_judged)
        self.generator.backward(g_loss * share)

    def _update(self, name: str) -> None:
        player = self.players[name]
        player.step()
        if player.gradient_norm is not None:
            self.means.add({name: player.gradient_norm}, "gradient_norm/")

    def activation_bytes(self, batch: Batch) -> int:
        """Compute what a step computes of a batch but for gradients, to see that networks and losses take it.

        Returns the bytes that are kept for the backward passes, without the weights.
        """
        known = {p.untyped_storage().data_ptr() for player in self.players.values() for p in player.module.parameters()}
        kept: dict[int, int] = {}

        def keep(tensor: Tensor) -> Tensor:
            storage = tensor.untyped_storage()
            if storage.data_ptr() not in known:
                kept[storage.data_ptr()] = storage.nbytes()
            return tensor

        losses = []  # alive until the end, so that no memory is counted twice
        for scene in self._passes([batch]):
            with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor), self.precision.autocast():
                fake = self.generator.network(*scene.generator_inputs)
                fake_judged, real_judged = self._judge((scene.source, fake), (scene.source, scene.target))
                losses.append(self._generator_loss(scene, fake, fake_judged, real_judged))
                losses.append(self._discriminator_loss(scene, fake, fake_judged, real_judged))
        return sum(kept.values())

    def _passes(self, batches: Sequence[Batch]) -> Iterator[ModelInputs]:
        """The scene of each batch; gradients are averaged in the last pass."""
        for number, batch in enumerate(batches, start=1):
            is_last = number == len(batches)
            with (
                synchronized(self.generator.network, is_last),
                synchronized(self.discriminator.network, is_last),
            ):
                source = self.conditioning(batch)
                inputs = self.conditioning.generator_inputs(batch, source)
                yield ModelInputs(source, self.conditioning.target(batch), inputs, batch.names)

    def _judge(self, *pairs: tuple[Tensor, Tensor]) -> list[list[DiscriminatorOutput]]:
        """The discriminator's judgements of each pair of a source and an image; in one pass where that is the same."""
        judge = self.discriminator.network
        if not self.judges_jointly or len({image.shape for _, image in pairs}) > 1:
            return [judge(source, image) for source, image in pairs]
        sources, images = zip(*pairs, strict=True)
        source = sources[0] if all(other is sources[0] for other in sources) else torch.cat(sources)
        scales = [scale.chunk(len(pairs)) for scale in judge(source, torch.cat(images))]
        return [list(judged) for judged in zip(*scales, strict=True)]

    def _discriminator_loss(
        self,
        scene: ModelInputs,
        fake: Tensor,
        fake_judged: list[DiscriminatorOutput],
        real_judged: list[DiscriminatorOutput],
    ) -> Tensor:
        def judge(images: Tensor) -> list[Tensor]:
            # for penalties: the gradient of a gradient wants float32
            with torch.autocast(images.device.type, enabled=False):
                return [scale.logits for scale in self.discriminator.computing(scene.source, images)]

        terms = self.discriminator_objective(
            [scale.logits for scale in fake_judged], [scale.logits for scale in real_judged], judge, fake, scene.target
        )
        self.means.add(terms, "loss/D/")
        judged = {"real": real_judged, "fake": fake_judged}
        means = {name: torch.stack([scale.logits.mean() for scale in scales]).mean() for name, scales in judged.items()}
        self.means.add(means, "logits/D/")
        return terms["total"]

    def _generator_loss(
        self,
        scene: ModelInputs,
        fake: Tensor,
        fake_judged: list[DiscriminatorOutput],
        real_judged: list[DiscriminatorOutput],
    ) -> Tensor:
        terms = self.objective(
            Translation(
                fake=fake,
                target=scene.target,
                fake_logits=[scale.logits for scale in fake_judged],
                fake_features=[scale.features for scale in fake_judged],
                real_features=[scale.features for scale in real_judged],
                names=scene.names,
            )
        )
        self.means.add(terms, "loss/G/")
        return terms["total"]


def build_update(config: Config, world: World) -> AdversarialUpdate:
    """Networks, optimizers and losses with initial weights, on the device of `world`."""
    if config.train.pool_size and world.size > 1:
        raise ConfigError(
            f"train.pool_size is {config.train.pool_size}, expected 0 with several processes: each would have its own"
        )
    torch.manual_seed(config.run.seed)
    precision = choose_precision(config.amp.opt_level, config.amp.dtype, world.device)
    modules = [build.build_generator(config), build.build_discriminator(config)]
    with world.main_first():
        perceptual = build.build_perceptual_loss(config)
    if perceptual is not None:
        perceptual.to(world.device).to(memory_format=build.perceptual_memory_format(config, world.device))
    torch.manual_seed(config.run.seed + world.rank)  # noise differs by process

    def wrap_generator(network: nn.Module) -> nn.Module:
        return world.wrap(compiled(network, world.device) if config.train.compile else network)

    generator, discriminator = modules
    return AdversarialUpdate(
        generator=_make_trainable(
            generator,
            config,
            world.device,
            precision,
            wrap_generator,
            steps_in_backward=_steps_in_backward(config, world, precision),
        ),
        # the generator's backward pass goes through the discriminator's graph, whose weights have to stay
        discriminator=_make_trainable(
            discriminator, config, world.device, precision, world.wrap, steps_in_backward=False
        ),
        objective=build.build_objective(config, perceptual),
        discriminator_objective=build.build_discriminator_objective(config),
        precision=precision,
        conditioning=build.build_conditioning(config),
        judges_jointly=config.discriminator.norm == "instance",
        keeps_graph=config.train.retain_graph,
        pool=ImagePool(config.train.pool_size) if config.train.pool_size else None,
    )


def _steps_in_backward(config: Config, world: World, precision: Precision) -> bool:
    """Whether the generator is to: where an update needs its own gradient alone, which one backward pass gives."""
    is_measured = config.optimizer.max_gradient_norm is not None or config.log.gradient_norms
    is_in_parts = world.size > 1 or config.train.accumulation_steps > 1
    is_of_another = precision.make_scaler().is_enabled() or precision.keeps_master_weights
    comes_at_once = config.train.compile or config.train.cuda_graph
    return config.optimizer.step_in_backward and not (is_measured or is_in_parts or is_of_another or comes_at_once)


def _make_trainable(
    module: nn.Module,
    config: Config,
    device: torch.device,
    precision: Precision,
    wrap: Wrap,
    *,
    steps_in_backward: bool,
) -> TrainableNetwork:
    module.to(device).to(memory_format=build.memory_format(config, device))
    settings = config.optimizer
    computing = precision.computing(module)
    return TrainableNetwork(
        module=module,
        computing=computing,
        wrap=wrap,
        optimizer=make_adam(
            module,
            learning_rate=settings.learning_rate,
            betas=(settings.beta1, settings.beta2),
            weight_decay=settings.weight_decay,
            capturable=config.train.cuda_graph,
        ),
        scaler=precision.make_scaler(),
        max_gradient_norm=settings.max_gradient_norm,
        measures_gradients=config.log.gradient_norms,
        steps_in_backward=steps_in_backward,
    )
