"""Optimizer groups: one Adam, one GradScaler and one decision for all networks of a group."""

import copy
import math
from typing import Any

import pytest
import torch

from models.global_generator import GlobalGenerator
from tests.models.test_layers import ON_GPU
from training.optimizer_group import OptimizerGroup, RunningMeans, all_finite
from training.trained_network import TrainedNetwork

NAMES = ["first", "second"]


def make_group(names: list[str] = NAMES[:1], *, copies: bool = False) -> OptimizerGroup:
    torch.manual_seed(0)
    networks = {}
    for name in names:
        module = GlobalGenerator(in_channels=3, base_channels=2, n_downsamplings=1, n_blocks=12, norm="batch")
        computing = copy.deepcopy(module).bfloat16() if copies else module
        networks[name] = TrainedNetwork(module, computing, lambda network: network, "generator")
    parameters = [parameter for network in networks.values() for parameter in network.parameters]
    adam = torch.optim.Adam(parameters, lr=0.1, betas=(0.5, 0.999), fused=True)
    return OptimizerGroup(networks, adam, torch.amp.GradScaler("cpu", enabled=False), None)


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


def moments(group: OptimizerGroup) -> dict[str, Any]:
    found: dict[str, Any] = group.state_dict()["moments"]["first"]
    return found


@pytest.mark.parametrize("copies", [False, True])
def test_frozen_parts_keep_their_weights_also_in_a_copy_and_get_no_gradient(copies: bool) -> None:
    group = make_group(copies=copies)
    network = group.networks["first"]
    network.freeze(["stem", "blocks.1", "head.1.bias"])
    before, of_copy = parameters(group), copy.deepcopy(network.compute_copy.state_dict())
    backward(group)
    without = {name for name, p in network.compute_copy.named_parameters() if p.grad is None}
    group.step("group", RunningMeans())
    frozen = {name for name in before if name.startswith(("stem.", "blocks.1.")) or name == "head.1.bias"}
    assert "blocks.10.body.1.weight" not in frozen  # whole words of the name
    assert without == frozen
    assert changed(group, before) == set(before) - frozen == moments(group).keys()
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


def test_two_networks_step_as_each_in_a_group_of_its_own() -> None:
    both = make_group(NAMES)
    alone = {name: make_group([name]) for name in NAMES}
    for name, group in alone.items():
        group.networks[name].load_weights(both.networks[name].module.state_dict())
    for _ in range(2):
        for group in (both, *alone.values()):
            step(group)
    for name, group in alone.items():
        torch.testing.assert_close(parameters(both, name), parameters(group, name), rtol=0, atol=0)
        torch.testing.assert_close(
            both.state_dict()["moments"][name], group.state_dict()["moments"][name], rtol=0, atol=0
        )


def test_gradient_that_is_not_finite_skips_the_update_of_the_group() -> None:
    group = make_group(NAMES)
    before = {name: parameters(group, name) for name in NAMES}
    handle = group.networks["second"].parameters[0].register_hook(lambda gradient: gradient * torch.nan)
    step(group)
    handle.remove()
    assert int(group.skipped_steps) == int(group.skipped_in_a_row) == 1
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
