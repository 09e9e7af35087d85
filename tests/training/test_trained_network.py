"""Networks in training: frozen parts, and copies that compute in their place."""

import copy
import gc
import weakref

import pytest
import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.amp import GradScaler

from models.global_generator import GlobalGenerator
from training.optimizer_group import OptimizerGroup, make_adam
from training.running_means import RunningMeans
from training.trained_network import TrainedNetwork
from utils.distributed import World


def make_network() -> TrainedNetwork:
    module = GlobalGenerator(in_channels=3, base_channels=2, n_downsamplings=1, n_blocks=12, norm="batch")
    return TrainedNetwork(module, module, lambda network: network, "generator")


@pytest.mark.parametrize(
    ("prefixes", "complaint"),
    [
        (["stm"], r"no parameter's name begins with 'stm'; the parts are stem.1, stem.2, downs.0, blocks.0, "),
        (["stem", "downs", "blocks", "ups", "head"], "nothing would be left to train"),
    ],
)
def test_what_cannot_be_frozen_is_named(prefixes: list[str], complaint: str) -> None:
    with pytest.raises(ValueError, match=complaint):
        make_network().freeze(prefixes)


def test_ddp_s_buckets_of_what_was_trained_before_are_freed_at_once() -> None:
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


def test_a_copy_in_fewer_bits_hands_its_gradients_over_and_receives_the_weights() -> None:
    module = nn.Sequential(nn.Linear(2, 2), nn.BatchNorm1d(2))
    network = TrainedNetwork(module, copy.deepcopy(module).bfloat16(), lambda copied: copied, "generator")
    assert network.has_copy
    network.network(torch.ones(2, 2, dtype=torch.bfloat16)).sum().backward()
    network.receive_gradients()
    assert all(
        parameter.grad is not None and parameter.grad.dtype == torch.float32 for parameter in module.parameters()
    )
    assert all(parameter.grad is None for parameter in network.receivers)
    with torch.no_grad():
        module.get_parameter("0.weight").fill_(0.5)
    network.update_copy()
    assert (network.compute_copy.get_parameter("0.weight") == 0.5).all()
    assert int(module.get_buffer("1.num_batches_tracked")) == 1


def test_frozen_parts_stay_as_they_are_in_the_network_and_its_copy() -> None:
    module = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 1))
    network = TrainedNetwork(module, copy.deepcopy(module).bfloat16(), lambda copied: copied, "generator")
    network.freeze(["0"])
    optimizer = make_adam([module], learning_rate=0.1, betas=(0.5, 0.999))
    group = OptimizerGroup({"generator": network}, optimizer, GradScaler("cpu", enabled=False), None)
    before = {name: value.clone() for name, value in (module.state_dict() | network_state(network)).items()}
    group.backward(network.network(torch.ones(1, 2, dtype=torch.bfloat16)).float().sum())
    group.step("group", RunningMeans())
    after = module.state_dict() | network_state(network)
    same = {name for name, value in after.items() if torch.equal(value, before[name])}
    assert same == {"0.weight", "0.bias", "copy.0.weight", "copy.0.bias"}
    assert group.state_dict()["moments"]["generator"].keys() == {"1.weight", "1.bias"}


def network_state(network: TrainedNetwork) -> dict[str, Tensor]:
    return {f"copy.{name}": value for name, value in network.compute_copy.state_dict().items()}
