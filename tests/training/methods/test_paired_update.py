"""The updates on pairs have the gradients of plain passes, float64."""

from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any, cast

import pytest
import torch
from torch import Tensor

from configs.load import load_config
from data.conditioning import one_hot
from losses.diffaugment import Transform
from losses.segmentation import mask_of
from tests.training.methods.updates import (
    POLICY,
    Pair,
    RecordedAugmentation,
    Setup,
    Step,
    assert_equals_reference,
    capture_gradients,
    make_pair,
    make_update,
    record,
    update_of,
)
from training.methods.paired import ModelInputs, Paired, build_paired
from utils.distributed import World

BOTH_ORDERS = pytest.mark.parametrize("step", [Paired.joint_update, Paired.alternating_update])
SEGMENTATION = Setup(gan_mode="segmentation", weights={"adversarial": 1.0, "l1": 5.0}, penalties={"labelmix": 10.0})


@pytest.mark.parametrize("policy", [(), POLICY])
@pytest.mark.parametrize("norm", ["instance", "batch"])
@BOTH_ORDERS
def test_a_step_has_the_gradients_of_plain_passes(step: Step, norm: str, policy: Sequence[str]) -> None:
    assert_equals_reference(step, Setup(norm=norm, penalties={"r1": 0.7}), make_pair(), policy=policy)


@pytest.mark.parametrize(
    ("size", "norm", "policy"), [(32, "instance", POLICY), (48, "instance", ()), (32, "batch", ())]
)
@pytest.mark.parametrize("step", [Paired.joint_update, Paired.alternating_update, Paired.discriminator_update])
def test_discriminator_is_trained_on_the_images_of_the_pool(
    step: Step, size: int, norm: str, policy: Sequence[str]
) -> None:
    earlier = (torch.randn(2, 3, size, size).double(), torch.rand(2, 3, size, size).double())
    assert_equals_reference(step, Setup(norm=norm), make_pair(), policy=policy, earlier=earlier)


@pytest.mark.parametrize("policy", [(), POLICY])
@BOTH_ORDERS
def test_a_step_of_oasis_has_the_gradients_of_plain_passes(
    step: Step, policy: Sequence[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    masks: list[Tensor] = []

    def recorded_mask(labels: Tensor) -> Tensor:
        masks.append(mask_of(labels, torch.tensor([True, False, True])))
        return masks[-1]

    monkeypatch.setattr("losses.segmentation.draw_mask", recorded_mask)
    assert_equals_reference(step, SEGMENTATION, label_pair(), policy=policy, masks=masks)


def label_pair() -> Pair:
    """One-hot labels of two classes with pixels of neither, edges; images."""
    generator = torch.Generator().manual_seed(1)
    ids = torch.randint(3, (2, 1, 8, 8), generator=generator).repeat_interleave(4, 2).repeat_interleave(4, 3)
    edges = torch.randint(2, (2, 1, 32, 32), generator=generator)
    target = torch.rand(2, 3, 32, 32, generator=generator, dtype=torch.float64) * 2 - 1
    return torch.cat([one_hot(ids, 2), edges], dim=1).double(), target


@BOTH_ORDERS
def test_accumulated_batches_equal_one_large_batch(step: Step) -> None:
    accumulated, joint = make_update(), make_update()
    source, target = make_pair(4)
    step(accumulated, update_of([(source[:2], target[:2]), (source[2:], target[2:])]))
    step(joint, update_of([(source, target)]))
    for name in joint.optimizers:
        states = [one.optimizers[name].networks[name].module.state_dict() for one in (accumulated, joint)]
        torch.testing.assert_close(*states, rtol=1e-7, atol=1e-9)


def test_gradients_are_clipped_after_they_are_unscaled() -> None:
    update = make_update(dtype=torch.float32, compute_dtype=torch.float16, max_norm=0.25)
    found = [capture_gradients(group) for group in update.optimizers.values()]
    update.joint_update(update_of([make_pair(dtype=torch.float32)]))
    for gradients in found:
        norm = torch.stack([gradient.norm() for gradient in gradients.values()]).norm()
        assert norm.item() == pytest.approx(0.25, rel=1e-3)
    plain, alone = make_update(dtype=torch.float32, max_norm=0.25), World(0, 1, torch.device("cpu"))
    plain.joint_update(update_of([make_pair(dtype=torch.float32)]))
    norms, expected = ({k: v for k, v in one.means.flush(alone).items() if "norm" in k} for one in (update, plain))
    assert norms == pytest.approx(expected, rel=0.05)


@pytest.mark.parametrize(
    ("poisoned", "healthy", "step"),
    [
        ("generator", "discriminator", Paired.joint_update),
        ("discriminator", "generator", Paired.alternating_update),
    ],
)
def test_an_overflow_skips_that_optimizers_step_and_lowers_only_that_scale(
    step: Step, poisoned: str, healthy: str
) -> None:
    update = make_update(dtype=torch.float32, compute_dtype=torch.float16)
    before = {name: [p.clone() for p in group.parameters] for name, group in update.optimizers.items()}
    first_scale = update.optimizers["generator"].scaler.get_scale()
    handle = update.optimizers[poisoned].parameters[0].register_hook(lambda gradient: gradient * torch.inf)
    step(update, update_of([make_pair(dtype=torch.float32)]))
    handle.remove()
    bad, good = update.optimizers[poisoned], update.optimizers[healthy]
    assert (bad.scaler.get_scale(), good.scaler.get_scale()) == (first_scale / 2, first_scale)
    assert (int(bad.skipped_steps), int(good.skipped_steps)) == (1, 0)
    assert all(torch.equal(p, old) for p, old in zip(bad.parameters, before[poisoned], strict=True))
    assert all(not torch.equal(p, old) for p, old in zip(good.parameters, before[healthy], strict=True))
    step(update, update_of([make_pair(dtype=torch.float32)]))
    assert int(bad.skipped_steps) == 1
    assert all(not torch.equal(p, old) for p, old in zip(bad.parameters, before[poisoned], strict=True))


@pytest.mark.parametrize("penalties", [{"gradient_penalty": 10.0}, {"r1": 1.0}])
def test_penalties_have_finite_gradients_in_half_precision(penalties: dict[str, float]) -> None:
    settings: dict[str, Any] = {"dtype": torch.float32, "compute_dtype": torch.bfloat16, "weights": {"adversarial": 1}}
    plain, penalized = make_update(**settings), make_update(**settings, penalties=penalties)
    found = [capture_gradients(update.optimizers["discriminator"]) for update in (plain, penalized)]
    for update in (plain, penalized):
        update.joint_update(update_of([make_pair(dtype=torch.float32)]))
    assert all(gradient.isfinite().all() for gradient in found[1].values())
    assert any(not torch.allclose(found[0][name], found[1][name], rtol=0.05) for name in found[0])


def test_graph_of_a_pass_is_freed_before_the_next_pass() -> None:
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


def rows_of(transforms: Sequence[Transform]) -> list[list[int]]:
    """The moves by rows of each draw of an augmentation."""
    drawn = [cast(partial[Tensor], transform.operations["translation"]) for transform in transforms]
    return [translation.keywords["rows"].tolist() for translation in drawn]


@pytest.mark.parametrize(("retain_graph", "n_draws"), [(True, 4), (False, 6)])
def test_each_pass_draws_its_own_augmentation(retain_graph: bool, n_draws: int) -> None:
    update, passes = make_update(), update_of([make_pair(8)] * 2)
    recorded = record(update)
    update.retain_graph = retain_graph
    update.update([passes, passes])
    rows = rows_of(recorded.transforms)
    assert len(rows) == len({str(one) for one in rows}) == n_draws
    assert all(len(one) == 8 for one in rows)


def test_one_pass_judges_real_and_fake_with_one_source(monkeypatch: pytest.MonkeyPatch) -> None:
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
    config = load_config(tiny_config, [f"augmentation.policy=[{','.join(POLICY)}]"])
    draws = []
    for rank in range(2):
        recorded = RecordedAugmentation()
        build_paired(config, World(rank, 2, torch.device("cpu")))
        recorded.draw(torch.zeros(20, 3, 64, 64))
        draws += rows_of(recorded.transforms)
    assert draws[0] != draws[1]
