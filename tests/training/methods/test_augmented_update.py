"""The update with DiffAugment against a plain reference that applies the same draws by hand, float64."""

from pathlib import Path

import pytest
import torch
from torch import Tensor

from configs.load import load_config
from losses.adversarial import r1_penalty
from losses.augmentation import Augmentation, Transform, Translation
from losses.distances import match_features
from tests.runs import checkpoint, run, with_slow
from tests.training.methods.test_paired_update import (
    BOTH_ORDERS,
    LSGAN,
    OnlyEarlier,
    Step,
    capture_gradients,
    features,
    logits,
    make_pair,
    make_update,
    reference_gradients,
    update_of,
)
from training.methods.paired import build_paired
from training.methods.paired_update import PairedUpdate
from utils.distributed import World

POLICY = ("color", "translation", "cutout")
SETTING = f"augmentation.policy=[{','.join(POLICY)}]"


class Recorded:
    """An augmentation that keeps its transforms."""

    def __init__(self) -> None:
        self.transforms: list[Transform] = []

    def draw(self, images: Tensor) -> Transform:
        self.transforms.append(Augmentation(POLICY).draw(images))
        return self.transforms[-1]

    @property
    def rows(self) -> list[list[int]]:
        """The moves by rows of each draw."""
        operations = [operation for transform in self.transforms for operation in transform.operations]
        return [operation.rows.tolist() for operation in operations if isinstance(operation, Translation)]


def record(update: PairedUpdate) -> Recorded:
    update.augmentation = recorded = Recorded()  # type: ignore[assignment]
    return recorded


@pytest.fixture(autouse=True)
def _seed() -> None:
    torch.manual_seed(3)


@pytest.mark.parametrize("norm", ["instance", "batch"])
@BOTH_ORDERS
def test_real_and_translated_images_share_the_draws_of_each_judgement(step: Step, norm: str) -> None:
    update, reference = (make_update(norm=norm, r1=0.7) for _ in range(2))  # type: ignore[arg-type]
    recorded = record(update)
    source, target = make_pair()
    d_gradients, g_gradients = (
        capture_gradients(update.optimizers["discriminator"]),
        capture_gradients(update.optimizers["generator"]),
    )
    step(update, update_of([(source, target)]))

    generator, discriminator = reference.generator.module, reference.discriminator.module
    fake = generator(source)
    is_first = step is PairedUpdate.alternating_update
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
        for name, parameter in discriminator.named_parameters():
            parameter.grad = expected_d[name].contiguous()  # fused Adam takes the strides to be the weight's
        reference.optimizers["discriminator"].optimizer.step()
    seen = recorded.transforms[-1]
    moved = seen.of_source(source)
    outputs = discriminator(moved, seen.of_image(fake))
    with torch.no_grad():
        real_features = features(discriminator(moved, seen.of_image(target)))
    g_loss = (
        LSGAN.generator(logits(outputs))
        + 10 * match_features(features(outputs), real_features)
        + 5 * (fake - target).abs().mean()  # of the images as they are
    )
    expected_g = reference_gradients(generator, g_loss)
    torch.testing.assert_close(d_gradients, expected_d, rtol=1e-9, atol=1e-12)
    torch.testing.assert_close(g_gradients, expected_g, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("norm", ["instance", "batch"])
@pytest.mark.parametrize("size", [32, 48])
@pytest.mark.parametrize(
    "step",
    [PairedUpdate.joint_update, PairedUpdate.alternating_update, PairedUpdate.discriminator_update],
)
def test_earlier_translations_take_the_draws_of_their_place(step: Step, size: int, norm: str) -> None:
    update, reference = (make_update(norm=norm) for _ in range(2))  # type: ignore[arg-type]
    recorded = record(update)
    source, target = make_pair()
    earlier = (torch.randn(2, 3, size, size).double(), torch.rand(2, 3, size, size).double())
    update.pool = OnlyEarlier(earlier)  # type: ignore[assignment]
    gradients = capture_gradients(update.optimizers["discriminator"])
    step(update, update_of([(source, target)]))
    seen, discriminator = recorded.transforms[0], reference.discriminator.module
    shown = seen.of_source(earlier[0]), seen.of_image(earlier[1])
    expected = 0.5 * (
        LSGAN.discriminator(logits(discriminator(*shown)), is_real=False)
        + LSGAN.discriminator(logits(discriminator(seen.of_source(source), seen.of_image(target))), is_real=True)
    )
    torch.testing.assert_close(gradients, reference_gradients(discriminator, expected), rtol=1e-9, atol=1e-12)


@BOTH_ORDERS
def test_the_adversarial_term_alone_reaches_every_weight_of_the_generator(step: Step) -> None:
    update = make_update(weights={"adversarial": 1.0})
    record(update)
    gradients = capture_gradients(update.optimizers["generator"])
    step(update, update_of([make_pair()]))
    assert set(gradients) == {name for name, _ in update.generator.module.named_parameters()}
    assert all(gradient.abs().max() > 0 for gradient in gradients.values())


@pytest.mark.parametrize(("retain_graph", "n_draws"), [(True, 4), (False, 6)])
def test_each_pass_and_each_step_of_the_discriminator_draws_its_own(retain_graph: bool, n_draws: int) -> None:
    update, passes = make_update(), update_of([make_pair(8)] * 2)
    recorded = record(update)
    update.retain_graph = retain_graph
    update.step([passes, passes])
    assert len(recorded.rows) == n_draws
    assert len({str(rows) for rows in recorded.rows}) == n_draws
    assert all(len(rows) == 8 for rows in recorded.rows)


def test_one_pass_judges_both_with_one_convolution_of_the_source(monkeypatch: pytest.MonkeyPatch) -> None:
    update, shapes = make_update(), []
    record(update)
    forward = update.discriminator.network.forward

    def watched(source: Tensor, image: Tensor) -> object:
        shapes.append((len(source), len(image)))
        return forward(source, image)

    monkeypatch.setattr(update.discriminator.network, "forward", watched)
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


@pytest.mark.parametrize(
    "settings",
    with_slow(
        [
            ["amp.opt_level=O2", "amp.dtype=float16", "train.accumulation_steps=2"],
            ["discriminator.name=pixel", "loss.gan_mode=wgan", "loss.gradient_penalty=10", "train.pool_size=2"],
        ],
        [
            ["amp.opt_level=O1", "amp.dtype=float16"],
            ["amp.opt_level=O1", "amp.dtype=bfloat16", "train.retain_graph=false"],
            ["amp.opt_level=O2", "amp.dtype=bfloat16", "discriminator.norm=batch"],
            ["amp.opt_level=O3", "amp.dtype=bfloat16", "train.discriminator_steps=2", "data.target_channels=1"],
            ["features.n_channels=3", "features.base_channels=4", "features.n_downsamplings=1", "train.batch_size=2"],
        ],
    ),
    ids=" ".join,
)
def test_runs_of_other_settings_train_too(tiny_config: Path, settings: list[str]) -> None:
    run(tiny_config, SETTING, *settings, "train.max_steps=12")
    trained = checkpoint(tiny_config, 12)
    for name in ("generator", "discriminator"):
        # float16's scale begins too high with and without augmentation
        assert trained["optimizers"][name]["skipped_steps"] < 8
        assert all(state["step"] > 0 for state in trained["optimizers"][name]["moments"][name].values())
