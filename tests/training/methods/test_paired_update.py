"""The update against a plain reference, three discriminator passes, no kept graph, float64; and its augmentation."""

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any, cast

import pytest
import torch
from torch import Tensor, nn
from torch.optim import Adam

from configs.load import load_config
from losses import GENERATOR_LOSSES
from losses.adversarial import AdversarialLoss, r1_penalty
from losses.diffaugment import DiffAugment, Transform
from losses.objective import DiscriminatorObjective, GeneratorObjective
from models.blocks import Norm
from models.global_generator import GlobalGenerator
from models.patch_discriminator import DiscriminatorOutput, MultiscalePatchDiscriminator
from tests.losses.test_objective import match_features
from training.methods.judge import Judge
from training.methods.paired import ModelInputs, Paired, build_paired
from training.optimizer_group import OptimizerGroup
from training.running_means import RunningMeans
from training.trained_network import Role, TrainedNetwork
from utils.distributed import World
from utils.precision import Precision

Pair = tuple[Tensor, Tensor]
Step = Callable[[Paired, Sequence[ModelInputs]], None]
BOTH_ORDERS = pytest.mark.parametrize("step", [Paired.joint_update, Paired.alternating_update])
LSGAN = AdversarialLoss("lsgan", "sum")
POLICY = ("color", "translation", "cutout")
WEIGHTS = {"adversarial": 1.0, "feature_matching": 10.0, "l1": 5.0}


def update_of(pairs: Sequence[Pair]) -> list[ModelInputs]:
    return [ModelInputs(source, target, generator_inputs=(source,)) for source, target in pairs]


def make_objective(weights: dict[str, float], adversarial: AdversarialLoss) -> GeneratorObjective:
    settings = {"gan_mode": adversarial.gan_mode, "over_scales": adversarial.over_scales}
    return GeneratorObjective(
        {name: GENERATOR_LOSSES[name](**(settings if name == "adversarial" else {})) for name in weights}, weights
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


def make_paired_update(
    generator: OptimizerGroup, discriminator: OptimizerGroup, of_discriminator: Any, *, joint: bool = True, **parts: Any
) -> Paired:
    means = RunningMeans()
    return Paired(
        generator=generator.networks["generator"],
        discriminator=Judge(discriminator.networks["discriminator"], of_discriminator, joint, means),
        optimizers={"generator": generator, "discriminator": discriminator},
        translators={},
        means=means,
        **parts,
    )


def make_scaler(precision: Precision) -> torch.amp.GradScaler:
    """As Precision's, but from a scale at which nothing overflows by itself."""
    return torch.amp.GradScaler("cpu", init_scale=256.0, enabled=precision.make_scaler().is_enabled())


def make_update(
    *,
    norm: Norm = "instance",
    weights: dict[str, float] = WEIGHTS,
    dtype: torch.dtype = torch.float64,
    compute_dtype: torch.dtype = torch.float32,
    max_norm: float | None = None,
    lr: float = 2e-4,
    adversarial: AdversarialLoss = LSGAN,
    gradient_penalty: float = 0.0,
    r1: float = 0.0,
) -> Paired:
    torch.manual_seed(0)
    generator = GlobalGenerator(in_channels=3, base_channels=4, n_downsamplings=2, n_blocks=1, norm=norm)
    discriminator = MultiscalePatchDiscriminator(source_channels=3, base_channels=4, n_layers=2, norm=norm)
    precision = Precision("cpu", compute_dtype, "O1")
    return make_paired_update(
        make_group(generator.to(dtype), "generator", make_scaler(precision), max_norm=max_norm, lr=lr),
        make_group(discriminator.to(dtype), "discriminator", make_scaler(precision), max_norm=max_norm, lr=lr),
        DiscriminatorObjective(adversarial, gradient_penalty=gradient_penalty, r1=r1),
        joint=norm == "instance",
        objective=make_objective(weights, adversarial),
        precision=precision,
    )


def make_pair(n: int = 2, dtype: torch.dtype = torch.float64) -> Pair:
    generator = torch.Generator().manual_seed(1)
    source, target = torch.rand(2, n, 3, 32, 32, generator=generator, dtype=torch.float64).to(dtype) * 2 - 1
    return source, target


def capture_gradients(group: OptimizerGroup) -> dict[str, Tensor]:
    """Fills with the gradients by name when the optimizer of one network steps."""
    gradients: dict[str, Tensor] = {}

    (network,) = group.networks.values()

    def keep(*_: object) -> None:
        gradients.update({n: p.grad.clone() for n, p in network.module.named_parameters() if p.grad is not None})

    group.optimizer.register_step_pre_hook(keep)
    return gradients


def reference_gradients(network: nn.Module, loss: Tensor) -> dict[str, Tensor]:
    names = [name for name, _ in network.named_parameters()]
    return dict(zip(names, torch.autograd.grad(loss, list(network.parameters())), strict=True))


def logits(outputs: list[DiscriminatorOutput]) -> list[Tensor]:
    return [scale.logits for scale in outputs]


class Recorded:
    """An augmentation that keeps its transforms."""

    def __init__(self, policy: Sequence[str] = POLICY) -> None:
        self.policy = policy
        self.transforms: list[Transform] = []

    def draw(self, images: Tensor) -> Transform:
        self.transforms.append(DiffAugment(self.policy).draw(images))
        return self.transforms[-1]

    @property
    def rows(self) -> list[list[int]]:
        """The moves by rows of each draw."""
        drawn = [cast(partial[Tensor], transform.operations["translation"]) for transform in self.transforms]
        return [translation.keywords["rows"].tolist() for translation in drawn]


def record(update: Paired, policy: Sequence[str] = POLICY) -> Recorded:
    torch.manual_seed(3)
    update.discriminator.augmentation = recorded = Recorded(policy)  # type: ignore[assignment]
    return recorded


def take_step(update: Paired, gradients: dict[str, Tensor]) -> None:
    """Step a reference's discriminator, whose gradients are given."""
    for name, parameter in update.discriminator.trained.module.named_parameters():
        parameter.grad = gradients[name].contiguous()  # fused Adam takes the strides to be the weight's
    update.optimizers["discriminator"].optimizer.step()


@pytest.mark.parametrize("policy", [(), POLICY])
@pytest.mark.parametrize("norm", ["instance", "batch"])
@BOTH_ORDERS
def test_both_orders_give_the_gradients_of_three_plain_passes(step: Step, norm: Norm, policy: Sequence[str]) -> None:
    """Real and translated images share the draws of an augmentation in each pass of the discriminator."""
    update, reference = make_update(norm=norm, r1=0.7), make_update(norm=norm, r1=0.7)
    recorded = record(update, policy)
    source, target = make_pair()
    d_gradients, g_gradients = (capture_gradients(update.optimizers[name]) for name in ("discriminator", "generator"))
    step(update, update_of([(source, target)]))

    generator, discriminator = reference.generator.module, reference.discriminator.trained.module
    fake = generator(source)
    is_first = step is Paired.alternating_update  # then the updated discriminator scores the translations
    assert len(recorded.transforms) == (2 if is_first else 1)
    seen = recorded.transforms[0]
    moved = seen.of_source(source)
    d_loss = 0.5 * (
        LSGAN.discriminator(logits(discriminator(moved, seen.of_image(fake.detach()))), is_real=False)
        + LSGAN.discriminator(logits(discriminator(moved, seen.of_image(target))), is_real=True)
    )
    penalty = r1_penalty(lambda images: logits(discriminator(moved, seen.of_image(images))), target)
    expected_d = reference_gradients(discriminator, d_loss + 0.7 * penalty)
    if is_first:
        take_step(reference, expected_d)
    seen = recorded.transforms[-1]
    moved = seen.of_source(source)
    outputs = discriminator(moved, seen.of_image(fake))
    with torch.no_grad():
        of_target = discriminator(moved, seen.of_image(target))
    g_loss = (
        LSGAN.generator(logits(outputs))
        + 10 * match_features(outputs, of_target)
        + 5 * (fake - target).abs().mean()  # of the images as they are
    )
    torch.testing.assert_close(d_gradients, expected_d, rtol=1e-9, atol=1e-12)
    torch.testing.assert_close(g_gradients, reference_gradients(generator, g_loss), rtol=1e-9, atol=1e-12)


@BOTH_ORDERS
def test_accumulated_batches_equal_one_large_batch(step: Step) -> None:
    accumulated, joint = make_update(), make_update()
    source, target = make_pair(4)
    step(accumulated, update_of([(source[:2], target[:2]), (source[2:], target[2:])]))
    step(joint, update_of([(source, target)]))
    for name in joint.optimizers:
        torch.testing.assert_close(
            accumulated.optimizers[name].networks[name].module.state_dict(),
            joint.optimizers[name].networks[name].module.state_dict(),
            rtol=1e-7,
            atol=1e-9,
        )


@BOTH_ORDERS
def test_gradients_are_clipped_after_they_are_unscaled(step: Step) -> None:
    update = make_update(dtype=torch.float32, compute_dtype=torch.float16, max_norm=0.25)
    norms = {name: capture_gradients(group) for name, group in update.optimizers.items()}
    step(update, update_of([make_pair(dtype=torch.float32)]))
    for gradients in norms.values():
        norm = torch.stack([gradient.norm() for gradient in gradients.values()]).norm()
        assert norm.item() == pytest.approx(0.25, rel=1e-3)


@pytest.mark.parametrize(("poisoned", "healthy"), [("generator", "discriminator"), ("discriminator", "generator")])
@BOTH_ORDERS
def test_an_overflow_skips_that_optimizers_step_and_lowers_that_scale_alone(
    step: Step, poisoned: str, healthy: str
) -> None:
    update = make_update(dtype=torch.float32, compute_dtype=torch.float16)
    before = {name: [p.clone() for p in group.parameters] for name, group in update.optimizers.items()}
    first_scale = update.optimizers["generator"].scaler.get_scale()
    handle = update.optimizers[poisoned].parameters[0].register_hook(lambda gradient: gradient * torch.inf)
    step(update, update_of([make_pair(dtype=torch.float32)]))
    handle.remove()
    bad, good = update.optimizers[poisoned], update.optimizers[healthy]
    assert bad.scaler.get_scale() == first_scale / 2
    assert good.scaler.get_scale() == first_scale
    assert int(bad.skipped_steps) == 1
    assert int(good.skipped_steps) == 0
    assert all(torch.equal(p, old) for p, old in zip(bad.parameters, before[poisoned], strict=True))
    assert all(not torch.equal(p, old) for p, old in zip(good.parameters, before[healthy], strict=True))
    step(update, update_of([make_pair(dtype=torch.float32)]))
    assert int(bad.skipped_steps) == 1
    assert all(not torch.equal(p, old) for p, old in zip(bad.parameters, before[poisoned], strict=True))


class OnlyEarlier:
    """A pool that always shows one earlier pair."""

    def __init__(self, pair: Pair) -> None:
        self.pair = pair

    def exchange(self, _source: Tensor, _fake: Tensor) -> Pair:
        return self.pair


@pytest.mark.parametrize("policy", [(), POLICY])
@pytest.mark.parametrize("norm", ["instance", "batch"])
@pytest.mark.parametrize("size", [32, 48])
@pytest.mark.parametrize(
    "step",
    [Paired.joint_update, Paired.alternating_update, Paired.discriminator_update],
)
def test_the_discriminator_is_trained_on_what_the_pool_shows(
    step: Step, size: int, norm: Norm, policy: Sequence[str]
) -> None:
    """Earlier translations take the draws of an augmentation for their place."""
    update, reference = make_update(norm=norm), make_update(norm=norm)
    recorded = record(update, policy)
    source, target = make_pair()
    earlier = (torch.randn(2, 3, size, size).double(), torch.rand(2, 3, size, size).double())
    update.discriminator.pool = OnlyEarlier(earlier)  # type: ignore[assignment]
    gradients = capture_gradients(update.optimizers["discriminator"])
    step(update, update_of([(source, target)]))
    seen, discriminator = recorded.transforms[0], reference.discriminator.trained.module
    shown = seen.of_source(earlier[0]), seen.of_image(earlier[1])
    expected = 0.5 * (
        LSGAN.discriminator(logits(discriminator(*shown)), is_real=False)
        + LSGAN.discriminator(logits(discriminator(seen.of_source(source), seen.of_image(target))), is_real=True)
    )
    torch.testing.assert_close(gradients, reference_gradients(discriminator, expected), rtol=1e-9, atol=1e-12)
    stepped = not torch.equal(*(one.generator.parameters[0] for one in (update, reference)))
    assert stepped is (step is not Paired.discriminator_update)


@pytest.mark.parametrize("compute_dtype", [torch.float32, torch.bfloat16])
@BOTH_ORDERS
def test_penalties_train_the_discriminator(step: Step, compute_dtype: torch.dtype) -> None:
    weights = {"adversarial": 1.0}
    for settings in ({"gradient_penalty": 10.0}, {"r1": 1.0}):
        updates = [
            make_update(weights=weights, dtype=torch.float32, compute_dtype=compute_dtype, **penalty)  # type: ignore[arg-type]
            for penalty in ({}, settings)
        ]
        plain, penalized = (capture_gradients(update.optimizers["discriminator"]) for update in updates)
        for update in updates:
            step(update, update_of([make_pair(dtype=torch.float32)]))
        assert all(gradient.isfinite().all() for gradient in penalized.values())
        assert any(not torch.allclose(plain[name], penalized[name], rtol=0.05) for name in plain)


def test_nothing_of_a_pass_is_kept_when_the_next_begins() -> None:
    update, pair = make_update(), make_pair()
    saved: set[int] = set()

    class Kept:
        def __init__(self, tensor: Tensor) -> None:
            self.tensor = tensor
            saved.add(id(self))

        def __del__(self) -> None:
            saved.discard(id(self))

    n_kept: list[int] = []

    class Watched(list[ModelInputs]):
        def __iter__(self) -> Iterator[ModelInputs]:
            for inputs in super().__iter__():
                n_kept.append(len(saved))
                yield inputs

    with torch.autograd.graph.saved_tensors_hooks(Kept, lambda kept: kept.tensor):
        update.joint_update(Watched(update_of([pair, pair])))
    assert n_kept == [0, 0]


SETTING = f"augmentation.policy=[{','.join(POLICY)}]"


@pytest.mark.parametrize(("retain_graph", "n_draws"), [(True, 4), (False, 6)])
def test_each_pass_and_each_step_of_the_discriminator_draws_its_own(retain_graph: bool, n_draws: int) -> None:
    update, passes = make_update(), update_of([make_pair(8)] * 2)
    recorded = record(update)
    update.retain_graph = retain_graph
    update.update([passes, passes])
    assert len(recorded.rows) == n_draws
    assert len({str(rows) for rows in recorded.rows}) == n_draws
    assert all(len(rows) == 8 for rows in recorded.rows)


def test_one_pass_judges_both_with_one_convolution_of_the_source(monkeypatch: pytest.MonkeyPatch) -> None:
    update, shapes = make_update(), []
    record(update)
    forward = update.discriminator.trained.network.forward

    def watched(source: Tensor, image: Tensor) -> object:
        shapes.append((len(source), len(image)))
        return forward(source, image)

    monkeypatch.setattr(update.discriminator.trained.network, "forward", watched)
    update.joint_update(update_of([make_pair(2)]))
    assert shapes == [(2, 4)]


def test_processes_draw_differently(tiny_config: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(World, "barrier", lambda _: None)
    monkeypatch.setattr(World, "wrap", lambda _, network: network)
    config = load_config(tiny_config, [SETTING])
    draws = []
    for rank in range(2):
        recorded = Recorded()
        build_paired(config, World(rank, 2, torch.device("cpu")))
        recorded.draw(torch.zeros(20, 3, 64, 64))
        draws += recorded.rows
    assert draws[0] != draws[1]
