"""Updates of small networks, and the driver that compares a step with a plain reference."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import Adam

from losses import ADVERSARIAL_LOSSES, GENERATOR_LOSSES, PENALTIES
from losses.adversarial import AdversarialLoss, Logits, PenaltyInputs, r1_penalty
from losses.diffaugment import DiffAugment, Transform
from losses.objective import DiscriminatorObjective, GeneratorObjective
from losses.segmentation import labelmix_loss
from losses.shift_search import ShiftSearch
from models.global_generator import GlobalGenerator
from models.patch_discriminator import Discriminator, MultiscalePatchDiscriminator
from models.segmentation_discriminator import SegmentationDiscriminator
from tests.losses.test_objective import match_features
from tests.losses.test_shift_search import plainly_matched
from training.methods.discriminator import TrainedDiscriminator
from training.methods.paired import ModelInputs, Paired
from training.optimizer_group import OptimizerGroup, RunningMeans
from training.trained_network import Role, TrainedNetwork
from utils.device import Precision

Pair = tuple[Tensor, Tensor]
Step = Callable[[Paired, Sequence[ModelInputs]], Any]
WEIGHTS = {"adversarial": 1.0, "feature_matching": 10.0, "l1": 5.0}
SEARCH: Any = {"reach": 2, "patch": 12, "penalty": 0.05}
POLICY = ("color", "translation", "cutout")


def update_of(pairs: Sequence[Pair]) -> list[ModelInputs]:
    return [ModelInputs(source, target, generator_inputs=(source,)) for source, target in pairs]


def make_pair(n: int = 2, dtype: torch.dtype = torch.float64) -> Pair:
    generator = torch.Generator().manual_seed(1)
    source, target = torch.rand(2, n, 3, 32, 32, generator=generator, dtype=torch.float64).to(dtype) * 2 - 1
    return source, target


def make_objective(weights: Mapping[str, float], adversarial: AdversarialLoss) -> GeneratorObjective:
    arguments = {name: {"adversarial_loss": adversarial} if name == "adversarial" else {} for name in weights}
    return GeneratorObjective(
        {name: (GENERATOR_LOSSES[name].make(**arguments[name]), weights[name]) for name in weights}
    )


def make_group(
    module: nn.Module,
    role: Role,
    scaler: torch.amp.GradScaler,
    *,
    max_norm: float | None = None,
    lr: float = 2e-4,
    adam: Adam | None = None,
) -> OptimizerGroup:
    adam = adam or Adam(module.parameters(), lr, betas=(0.5, 0.999), fused=True)
    network = TrainedNetwork(module, module, lambda network: network, role)
    return OptimizerGroup({role: network}, adam, scaler, max_norm)


def make_paired(
    generator: OptimizerGroup,
    discriminator: OptimizerGroup,
    adversarial: AdversarialLoss,
    weights: Mapping[str, float],
    precision: Precision,
    *,
    joint: bool = True,
    penalties: Mapping[str, float] | None = None,
) -> Paired:
    means = RunningMeans()
    objective = DiscriminatorObjective(adversarial, {n: (PENALTIES[n], w) for n, w in (penalties or {}).items()})
    network = discriminator.networks["discriminator"]
    return Paired(
        generator=generator.networks["generator"],
        discriminator=TrainedDiscriminator(network, objective, sees_source=True, joint=joint, means=means),
        optimizers={"generator": generator, "discriminator": discriminator},
        translators={},
        means=means,
        objective=make_objective(weights, adversarial),
        discriminator_objective=objective,
        precision=precision,
    )


@dataclass
class Setup:
    """The settings of a small update, float64 by default."""

    norm: Any = "instance"
    weights: Mapping[str, float] | None = None
    dtype: torch.dtype = torch.float64
    compute_dtype: torch.dtype = torch.float32
    max_norm: float | None = None
    gan_mode: str = "lsgan"
    penalties: Mapping[str, float] | None = None
    search: ShiftSearch | None = None

    def build(self) -> Paired:
        torch.manual_seed(0)
        generator = GlobalGenerator(in_channels=3, base_channels=4, n_downsamplings=2, n_blocks=1, norm=self.norm)
        adversarial = ADVERSARIAL_LOSSES[self.gan_mode]()
        discriminator: Discriminator = (
            SegmentationDiscriminator(n_classes=2, base_channels=4, n_downsamplings=3)
            if adversarial.classifies_pixels
            else MultiscalePatchDiscriminator(source_channels=3, base_channels=4, n_layers=2, norm=self.norm)
        )
        precision = Precision("cpu", self.compute_dtype, "O1")

        def group(network: nn.Module, role: Role) -> OptimizerGroup:
            is_scaled = precision.make_scaler().is_enabled()
            scaler = torch.amp.GradScaler("cpu", init_scale=256.0, enabled=is_scaled)  # nothing overflows at this scale
            return make_group(network.to(self.dtype), role, scaler, max_norm=self.max_norm)

        paired = make_paired(
            group(generator, "generator"),
            group(discriminator, "discriminator"),
            adversarial,
            self.weights or WEIGHTS,
            precision,
            joint=self.norm == "instance",
            penalties=self.penalties,
        )
        paired.search = self.search
        return paired


def make_update(**settings: Any) -> Paired:
    return Setup(**settings).build()


def capture_gradients(group: OptimizerGroup) -> dict[str, Tensor]:
    """Fills with the gradients by name when the optimizer of one network steps."""
    gradients: dict[str, Tensor] = {}
    (network,) = group.networks.values()

    def keep(*_: object) -> None:
        gradients.update({n: p.grad.clone() for n, p in network.module.named_parameters() if p.grad is not None})

    group.optimizer.register_step_pre_hook(keep)
    return gradients


class RecordedAugmentation:
    """An augmentation that keeps its transforms."""

    def __init__(self, policy: Sequence[str] = POLICY) -> None:
        self.policy = policy
        self.transforms: list[Transform] = []

    def draw(self, images: Tensor) -> Transform:
        self.transforms.append(DiffAugment(self.policy).draw(images))
        return self.transforms[-1]


def record(update: Paired, policy: Sequence[str] = POLICY) -> RecordedAugmentation:
    torch.manual_seed(3)
    update.discriminator.augmentation = recorded = RecordedAugmentation(policy)  # type: ignore[assignment]
    return recorded


def reference_gradients(
    role: Role, update: Paired, pair: Pair, seen: Transform, mask: Tensor | None, earlier: Pair | None
) -> dict[str, Tensor]:
    """Gradients of plain passes, one for each image and loss, of an update that has not stepped.

    mask: Mask of LabelMix. earlier: Pair that a pool shows.
    """
    (source, target), generator = pair, update.generator.module
    network, objective = update.discriminator.trained.module, update.discriminator.objective

    def logits(image: Tensor, condition: Tensor = source) -> Logits:
        condition = seen.of_source(condition)
        return Logits(lambda: network(condition, seen.of_image(image)), condition)

    if role == "generator":
        fake = generator(source)
        target = plainly_matched(fake.detach(), target, **SEARCH) if update.search else target
        loss = objective.adversarial.generator_loss(logits(fake), logits(target)) + 5 * (fake - target).abs().mean()
        if "feature_matching" in update.objective.losses:
            loss = loss + 10 * match_features(logits(fake).discriminate(), logits(target).discriminate())
        return gradients_of(generator, loss)
    fake = generator(source).detach()
    shown, real = logits(earlier[1], earlier[0]) if earlier else logits(fake), logits(target)
    loss = objective.adversarial.discriminator_loss(real, shown)["total"]
    for name, (_, weight) in objective.penalties.items():
        if name == "r1":
            unread: Any = None
            inputs = PenaltyInputs(target, unread, unread, unread, lambda images: logits(images).scales, unread)
            loss = loss + weight * r1_penalty(inputs)
        else:
            assert mask is not None
            mixed = network(source, torch.where(mask, seen.of_image(target), seen.of_image(fake)))[0].logits
            distance = labelmix_loss(mask, mixed=mixed, fake=shown.scales[0], real=real.scales[0])
            loss = loss + 0.5 * weight * distance
    return gradients_of(network, loss)


def gradients_of(network: nn.Module, loss: Tensor) -> dict[str, Tensor]:
    names = [name for name, _ in network.named_parameters()]
    return dict(zip(names, torch.autograd.grad(loss, list(network.parameters())), strict=True))


def assert_equals_reference(
    step: Step, setup: Setup, pair: Pair, *, policy: Sequence[str] = (), earlier: Pair | None = None, masks: Any = None
) -> None:
    """Check the gradients of a step against plain passes.

    policy: The augmentation, whose draws real and translated images share. masks: Fills with LabelMix's masks.
    """
    update, plain = setup.build(), setup.build()
    recorded = record(update, policy)
    if earlier:
        update.discriminator.pool = SimpleNamespace(exchange=lambda *_: earlier)  # type: ignore[assignment]
    of_discriminator, of_generator = (capture_gradients(update.optimizers[n]) for n in ("discriminator", "generator"))
    step(update, update_of([pair]))
    rest = masks[0] if masks else None, earlier
    expected = reference_gradients("discriminator", plain, pair, recorded.transforms[0], *rest)
    torch.testing.assert_close(of_discriminator, expected, rtol=1e-9, atol=1e-12)
    if step is Paired.alternating_update:  # then the updated discriminator scores the translations
        for name, parameter in plain.discriminator.trained.module.named_parameters():
            parameter.grad = expected[name].contiguous()  # fused Adam takes the strides to be the weight's
        plain.optimizers["discriminator"].optimizer.step()
    assert len(recorded.transforms) == (2 if step is Paired.alternating_update else 1)
    if step is not Paired.discriminator_update:
        expected = reference_gradients("generator", plain, pair, recorded.transforms[-1], *rest)
        torch.testing.assert_close(of_generator, expected, rtol=1e-9, atol=1e-12)
    assert bool(of_generator) is (step is not Paired.discriminator_update)
