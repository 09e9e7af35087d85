"""Trained networks and groups of them: one Adam, one GradScaler and one decision for a group, and learning rates."""

import copy
import gc
import math
import re
import weakref
from functools import partial

import pytest
import torch
import torch.distributed as dist
from torch import nn
from torch.optim.lr_scheduler import CosineAnnealingLR, LRScheduler, ReduceLROnPlateau, StepLR

from configs.schema import OptimizerConfig, TrainConfig
from models.global_generator import GlobalGenerator
from tests.models.test_layers import ON_GPU
from training.optimizer_group import (
    STEP_EPOCHS,
    LearningRateSchedule,
    OptimizerGroup,
    Plateau,
    RunningMeans,
    all_finite,
)
from training.trained_network import TrainedNetwork, freeze_parts
from utils.distributed import World
from utils.errors import ConfigError

NAMES = ["first", "second"]


def make_group(names: list[str] = NAMES[:1], *, copies: bool = False, scaled: bool = False) -> OptimizerGroup:
    torch.manual_seed(0)
    networks = {}
    for name in names:
        module = GlobalGenerator(in_channels=3, base_channels=2, n_downsamplings=1, n_blocks=12, norm="batch")
        computing = copy.deepcopy(module).bfloat16() if copies else module
        networks[name] = TrainedNetwork(module, computing, lambda network: network, "generator")
    parameters = [parameter for network in networks.values() for parameter in network.parameters]
    adam = torch.optim.Adam(parameters, lr=0.1, betas=(0.5, 0.999), fused=True)
    return OptimizerGroup(networks, adam, torch.amp.GradScaler("cpu", init_scale=256.0, enabled=scaled), None)


def backward(group: OptimizerGroup) -> None:
    images = torch.linspace(-1, 1, 192).view(1, 3, 8, 8)
    outputs = [one.network(images.to(one.receivers[0].dtype)).square().mean() for one in group.networks.values()]
    group.backward(torch.stack(outputs).float().sum())


def step(group: OptimizerGroup) -> None:
    backward(group)
    group.step("group", RunningMeans())


def parameters(group: OptimizerGroup, name: str = "first") -> dict[str, torch.Tensor]:
    return {key: value.detach().clone() for key, value in group.networks[name].module.named_parameters()}


def changed(group: OptimizerGroup, before: dict[str, torch.Tensor], name: str = "first") -> set[str]:
    return {key for key, value in parameters(group, name).items() if not torch.equal(value, before[key])}


@pytest.mark.parametrize("copies", [False, True])
def test_frozen_parts_keep_their_weights_also_in_a_copy_and_get_no_gradient(copies: bool) -> None:
    group = make_group(copies=copies)
    network = group.networks["first"]
    network.freeze(["stem", "blocks.1", "head.1.bias"])
    before, of_copy = parameters(group), copy.deepcopy(network.compute_copy.state_dict())
    backward(group)
    without = {name for name, p in network.compute_copy.named_parameters() if p.grad is None}
    group.step("group", RunningMeans())
    assert all(parameter.grad is None for parameter in network.receivers)
    assert all(int(value) == 1 for name, value in network.module.named_buffers() if name.endswith("batches_tracked"))
    frozen = {name for name in before if name.startswith(("stem.", "blocks.1.")) or name == "head.1.bias"}
    assert "blocks.10.body.1.weight" not in frozen  # whole words of the name
    assert without == frozen
    assert changed(group, before) == set(before) - frozen == group.state_dict()["moments"]["first"].keys()
    after = network.compute_copy.named_parameters()
    assert {name for name, value in after if torch.equal(value, of_copy[name])} == frozen


def test_state_without_moments_of_frozen_parts_is_loaded() -> None:
    group, other = make_group(), make_group()
    group.networks["first"].freeze(["stem"])
    step(group)
    state = copy.deepcopy(group.state_dict())
    assert "stem.1.weight" not in state["moments"]["first"]
    other.load_state_dict(state)
    other.networks["first"].load_weights(group.networks["first"].module.state_dict())
    for one in (group, other):
        one.networks["first"].freeze([])
        step(one)
    torch.testing.assert_close(other.state_dict(), group.state_dict(), rtol=0, atol=0)
    torch.testing.assert_close(parameters(other), parameters(group), rtol=0, atol=0)


def test_gradient_that_is_not_finite_skips_the_update_of_the_group_and_lowers_its_scale() -> None:
    group = make_group(NAMES, scaled=True)
    before = {name: parameters(group, name) for name in NAMES}
    handle = group.networks["second"].parameters[0].register_hook(lambda gradient: gradient * torch.nan)
    step(group)
    handle.remove()
    assert int(group.skipped_steps) == int(group.skipped_in_a_row) == 1
    assert group.scaler.get_scale() == 128
    assert not any(changed(group, before[name], name) for name in NAMES)
    step(group)
    assert (int(group.skipped_steps), int(group.skipped_in_a_row)) == (1, 0)
    assert all(changed(group, before[name], name) for name in NAMES)


@pytest.mark.parametrize("device", ["cpu", ON_GPU])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
def test_the_largest_numbers_are_finite_and_one_nan_is_found(device: str, dtype: torch.dtype) -> None:
    largest = torch.finfo(dtype).max
    for value in (largest, -largest, math.nan, math.inf, -math.inf):
        for place in (0, 70_000, 99_999):
            tensors = [torch.full((size,), largest, dtype=dtype, device=device) for size in (3, 100_000, 1)]
            tensors[1][place] = value
            assert bool(all_finite(tensors)) is math.isfinite(value), (value, place)


CONSTANT, DECAYING = 3, 4


def factors(settings: OptimizerConfig) -> list[float]:
    schedule = LearningRateSchedule(settings, CONSTANT, DECAYING)
    return [schedule.factor(epoch) for epoch in range(CONSTANT + DECAYING)]


def test_linear_decay_equals_pix2pixhd() -> None:
    # pix2pixHD lowers the rate at the end of epoch e (from 1) if e > niter
    rate, expected = 1.0, []
    for epoch in range(1, CONSTANT + DECAYING + 1):
        expected.append(rate)
        if epoch > CONSTANT:
            rate -= 1 / DECAYING
    assert factors(OptimizerConfig(decay="linear")) == expected == [1, 1, 1, 1, 0.75, 0.5, 0.25]


@pytest.mark.parametrize(
    ("settings", "scheduler"),
    [
        (OptimizerConfig(decay="step"), partial(StepLR, step_size=STEP_EPOCHS, gamma=0.1)),
        (OptimizerConfig(decay="cosine"), partial(CosineAnnealingLR, T_max=7)),
    ],
)
def test_step_and_cosine_decay_equal_torch(settings: OptimizerConfig, scheduler: partial[LRScheduler]) -> None:
    optimizer = torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=1.0)
    schedule, expected = scheduler(optimizer), []
    for _ in range(CONSTANT + DECAYING):
        expected.append(optimizer.param_groups[0]["lr"])
        optimizer.step()
        schedule.step()
    assert factors(settings) == pytest.approx(expected)


def test_plateau_equals_torch_scheduler_and_resumes() -> None:
    optimizer = torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=1.0)
    scheduler = ReduceLROnPlateau(optimizer, factor=0.2, threshold=0.01, patience=2)
    plateau = Plateau(patience=2)
    metrics = "1.0 0.5 0.499 0.498 0.497 0.6 0.4 0.5 0.5 0.5 0.5 0.1 0.0995 0.2 0.2 0.2 nan 0.3"
    for epoch, metric in enumerate(map(float, metrics.split())):
        plateau.update(metric)
        scheduler.step(metric)
        assert plateau.factor == pytest.approx(optimizer.param_groups[0]["lr"])
        if epoch == 8:  # a plateau has begun
            resumed = Plateau(patience=2)
            resumed.load_state_dict(plateau.state_dict())
            plateau = resumed
    assert plateau.factor < 0.01


def test_freezing_frees_the_buckets_of_the_former_ddp_wrapper() -> None:
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    try:
        gc.disable()
        module = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 1))
        network = TrainedNetwork(module, module, World(0, 2, torch.device("cpu")).wrap, "generator")
        for prefixes in (["0"], []):
            network.network(torch.ones(1, 2)).square().mean().backward()
            earlier = weakref.ref(network.network)
            network.freeze(prefixes)
            assert earlier() is None
    finally:
        gc.enable()
        del network
        dist.destroy_process_group()


@pytest.mark.parametrize(
    ("parts", "message"),
    [
        (["one.head"], "has no part 'head'. Its parts are coarse, fine"),
        (["one.coarse", "one.fine"], "train.freeze=['coarse', 'fine']:"),
        (["two.fine"], "train.freeze: no network 'two'. The networks are one"),
    ],
)
def test_freezing_a_missing_part_or_everything_is_an_error(parts: list[str], message: str) -> None:
    module = nn.ModuleDict({"coarse": nn.Conv2d(1, 1, 1), "fine": nn.Sequential(nn.Conv2d(1, 1, 1))})
    network = TrainedNetwork(module, module, lambda same: same, "generator")
    with pytest.raises(ConfigError, match=re.escape(message)):
        freeze_parts({"one": network}, TrainConfig(freeze=parts), epoch=0)
