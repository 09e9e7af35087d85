"""The updates on pairs have the gradients of plain passes, float64; their pool of earlier translations."""

from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any, cast
from unittest.mock import Mock
from weakref import WeakSet

import pytest
import torch
from torch import Tensor

from configs.load import load_config
from data.conditioning import PixelWeightFactors, one_hot
from losses.diffaugment import Transform
from losses.distances import l1
from losses.objective import GeneratorObjective, LossInputs
from losses.segmentation import mask_of
from losses.shift_search import ShiftSearch
from models.running_statistics import running_statistics
from tests.runs import assert_equal
from tests.training.methods.updates import (
    POLICY,
    SEARCH,
    Pair,
    Setup,
    Step,
    assert_equals_reference,
    capture_gradients,
    make_pair,
    make_update,
    record,
    update_of,
)
from training.methods.image_pool import ImagePool
from training.methods.paired import ModelInputs, Paired, build_paired
from utils.distributed import World

CPU = torch.device("cpu")
BOTH_ORDERS = pytest.mark.parametrize("step", [Paired.joint_update, Paired.alternating_update])
SEGMENTATION = Setup(gan_mode="segmentation", weights={"adversarial": 1.0, "l1": 5.0}, penalties={"labelmix": 10.0})


@pytest.mark.parametrize(("norm", "policy"), [("instance", POLICY), ("batch", ())])
@BOTH_ORDERS
def test_a_step_has_the_gradients_of_plain_passes(step: Step, norm: str, policy: Sequence[str]) -> None:
    assert_equals_reference(step, Setup(norm=norm, penalties={"r1": 0.7}), make_pair(), policy=policy)


@pytest.mark.parametrize(("norm", "policy"), [("instance", POLICY), ("batch", ())])
@BOTH_ORDERS
def test_losses_of_the_generator_use_the_matched_target(step: Step, norm: str, policy: Sequence[str]) -> None:
    assert_equals_reference(step, Setup(norm=norm, search=ShiftSearch(**SEARCH)), make_pair(), policy=policy)


@BOTH_ORDERS
def test_weights_of_targets_move_and_weights_of_classes_stay(step: Step) -> None:
    update = make_update(weights={"l1": 1.0})
    update.search = ShiftSearch(reach=2, patch=16, penalty=0)
    seen: list[LossInputs] = []

    def recorded_l1(made: LossInputs) -> Tensor:
        seen.append(made)
        return l1(made)

    update.objective = GeneratorObjective({"l1": (recorded_l1, 1.0)})
    source, target = make_pair()
    of_target, of_classes = torch.rand(2, 2, 1, 32, 32).double() + 0.5
    inputs = ModelInputs(source, target, (source,), PixelWeightFactors(of_target, of_classes))
    step(update, [inputs])
    match = update.search(seen[0].fake.detach(), target, of_target)
    assert not torch.equal(match.target, target)
    assert torch.equal(seen[0].target, match.target)
    assert match.weights is not None
    assert seen[0].weights is not None
    assert torch.equal(seen[0].weights.of_images.weights, match.weights * of_classes)
    assert update.means.flush(World(0, 1, CPU))["alignment/distance"] == pytest.approx(match.means["distance"].item())


@pytest.mark.parametrize(("size", "policy"), [(32, POLICY), (48, ())])
@pytest.mark.parametrize("step", [Paired.joint_update, Paired.alternating_update, Paired.discriminator_update])
def test_discriminator_is_trained_on_the_images_of_the_pool(step: Step, size: int, policy: Sequence[str]) -> None:
    earlier = (torch.randn(2, 3, size, size).double(), torch.rand(2, 3, size, size).double())
    assert_equals_reference(step, Setup(), make_pair(), policy=policy, earlier=earlier)


@BOTH_ORDERS
def test_a_step_of_oasis_has_the_gradients_of_plain_passes(step: Step, monkeypatch: pytest.MonkeyPatch) -> None:
    masks: list[Tensor] = []

    def recorded_mask(labels: Tensor) -> Tensor:
        masks.append(mask_of(labels, torch.tensor([True, False, True])))
        return masks[-1]

    monkeypatch.setattr("losses.segmentation.draw_mask", recorded_mask)
    assert_equals_reference(step, SEGMENTATION, label_pair(), policy=POLICY, masks=masks)


def label_pair() -> Pair:
    """One-hot labels of two classes with pixels of neither, edges; images."""
    generator = torch.Generator().manual_seed(1)
    ids = torch.randint(3, (2, 1, 8, 8), generator=generator).repeat_interleave(4, 2).repeat_interleave(4, 3)
    edges = torch.randint(2, (2, 1, 32, 32), generator=generator)
    target = torch.rand(2, 3, 32, 32, generator=generator, dtype=torch.float64) * 2 - 1
    return torch.cat([one_hot(ids, 2), edges], dim=1).double(), target


@BOTH_ORDERS
@pytest.mark.parametrize("search", [None, ShiftSearch(**SEARCH)])
def test_accumulated_batches_equal_one_large_batch(step: Step, search: ShiftSearch | None) -> None:
    accumulated, joint = make_update(search=search), make_update(search=search)
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
    plain, alone = make_update(dtype=torch.float32, max_norm=0.25), World(0, 1, CPU)
    plain.joint_update(update_of([make_pair(dtype=torch.float32)]))
    norms, expected = ({k: v for k, v in one.means.flush(alone).items() if "norm" in k} for one in (update, plain))
    assert norms == pytest.approx(expected, rel=0.05)


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
    saved: WeakSet[Any] = WeakSet()
    n_kept: list[int] = []

    class Kept:
        def __init__(self, tensor: Tensor) -> None:
            self.tensor = tensor
            saved.add(self)

    class Watched(list[ModelInputs]):
        def __iter__(self) -> Iterator[ModelInputs]:
            for inputs in super().__iter__():
                n_kept.append(len(saved))
                yield inputs

    with torch.autograd.graph.saved_tensors_hooks(Kept, lambda kept: kept.tensor):
        update.joint_update(Watched(update_of([pair, pair])))
    assert n_kept == [0, 0]


@pytest.mark.parametrize("place", ["first pass", "last pass", "first group"])
def test_a_pass_that_overflows_leaves_no_trace_in_running_statistics(place: str) -> None:
    update: Any = make_update(norm="batch", dtype=torch.float32)
    update.inputs = lambda inputs: inputs
    source, target = make_pair(dtype=torch.float32)
    (good,), (bad,) = update_of([(source, target)]), update_of([(source * torch.inf, target)])

    def statistics() -> list[Tensor]:
        return [s.clone() for one in update.networks.values() for s in running_statistics(one.module)]

    update.step([[good]])
    before = statistics()
    update.step({"first pass": [[bad, good]], "last pass": [[good, bad]], "first group": [[bad], [good]]}[place])
    assert_equal(statistics(), before)
    update.step([[good]])
    assert not any(torch.equal(new, old) for new, old in zip(statistics(), before, strict=True))


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
    update = make_update()
    record(update)
    network = update.discriminator.trained.network
    monkeypatch.setattr(network, "forward", forward := Mock(wraps=network.forward))
    update.joint_update(update_of([make_pair(2)]))
    (call,) = forward.call_args_list
    assert [len(images) for images in call.args] == [2, 4]


def test_processes_draw_differently(tiny_config: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(World, "barrier", lambda _: None)
    monkeypatch.setattr(World, "wrap", lambda _, network: network)
    draws = set()
    for rank in range(2):
        build_paired(load_config(tiny_config), World(rank, 2, CPU))
        draws.add(torch.rand(()).item())
    assert len(draws) == 2


def images_of(value: int, n: int = 1) -> tuple[Tensor, Tensor]:
    """A source and a translation that belong together."""
    return torch.full((n, 2, 4, 4), float(value)), torch.full((n, 3, 4, 4), -float(value))


def test_full_pool_shows_earlier_images_with_their_sources_half_of_the_time() -> None:
    torch.manual_seed(0)
    pool = ImagePool(5)
    n_earlier, seen = 0, []
    for value in range(400):
        source, fake = pool.exchange(*images_of(value))
        assert torch.equal(source[:, :1], -fake[:, :1])
        judged = int(source.mean())
        assert judged <= value if value >= 5 else judged == value
        n_earlier += judged < value
        seen += [judged] if value >= 5 else []
    assert 150 < n_earlier < 245
    assert len(set(seen)) == len(seen)  # what was judged once the pool was full has left it


def test_a_batch_is_exchanged_image_by_image_and_without_graph() -> None:
    torch.manual_seed(0)
    pool = ImagePool(2)
    pool.exchange(*images_of(1, n=2))
    source, fake = images_of(2, n=16)
    exchanged, images = pool.exchange(source, fake.bfloat16().requires_grad_())
    assert exchanged.shape == source.shape
    assert {1.0, 2.0} == set(exchanged.flatten().tolist())
    assert (images.requires_grad, images.dtype) == (False, torch.float32)


def test_pool_continues_from_its_state() -> None:
    pool, other = ImagePool(4), ImagePool(4)
    pool.exchange(*images_of(7, n=4))
    other.load_state_dict(pool.state_dict(), CPU)
    for one in (pool, other):
        torch.manual_seed(1)
        assert 7 in one.exchange(*images_of(8, n=8))[0].flatten().tolist()
    smaller, saved = ImagePool(2), pool.state_dict()
    smaller.load_state_dict(saved, CPU)
    saved[0][0].zero_()  # the pool has a copy
    assert [bool(source.all()) for source, _ in smaller.state_dict()] == [True, True]
    with pytest.raises(ValueError, match="pairs of images"):
        pool.load_state_dict([images_of(7, n=2)], CPU)


@pytest.mark.parametrize(
    ("n_images", "channels", "side", "is_shown"),
    [(1, (2, 3), 8, True), (2, (2, 3), 8, False), (1, (1, 3), 4, False), (1, (2, 5), 4, False)],
)
def test_only_a_batch_of_one_image_gets_an_image_of_another_size_and_none_gets_other_channels(
    n_images: int, channels: tuple[int, int], side: int, is_shown: bool
) -> None:
    torch.manual_seed(0)
    pool, shapes = ImagePool(1), set()
    new = torch.zeros(n_images, channels[0], side, side), torch.zeros(n_images, channels[1], side, side)
    for _ in range(20):
        pool.load_state_dict([images_of(1)], CPU)
        shapes.add(tuple(image.shape for image in pool.exchange(*new)))
    assert tuple(image.shape for image in new) in shapes
    assert len(shapes) == 1 + is_shown
