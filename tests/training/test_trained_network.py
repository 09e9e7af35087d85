"""Networks in training: frozen parts, and copies in lower precision."""

import copy
import gc
import re
import weakref

import pytest
import torch
import torch.distributed as dist
from torch import nn

from configs.schema import TrainConfig
from training.trained_network import Role, TrainedNetwork, Wrap, freeze_parts
from utils.distributed import World
from utils.errors import ConfigError


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


def test_low_precision_copy_passes_gradients_and_receives_weights() -> None:
    module = nn.Sequential(nn.Linear(2, 2), nn.BatchNorm1d(2))
    network = TrainedNetwork(module, copy.deepcopy(module).bfloat16(), lambda copied: copied, "generator")
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


class TwoStages(nn.ModuleDict):
    coarse_parts = ("coarse",)


def network(role: Role, wrap: Wrap = lambda same: same) -> TrainedNetwork:
    kind = TwoStages if role == "generator" else nn.ModuleDict
    module = kind({"coarse": nn.Conv2d(1, 1, 1), "fine": nn.Sequential(nn.Conv2d(1, 1, 1))})
    return TrainedNetwork(module, module, wrap, role)


def frozen(networks: dict[str, TrainedNetwork]) -> dict[str, set[str]]:
    return {
        name: {key.split(".")[0] for key, weight in one.module.named_parameters() if not weight.requires_grad}
        for name, one in networks.items()
    }


def test_coarse_parts_are_trained_after_their_epochs() -> None:
    networks = {"AtoB": network("generator"), "judge": network("discriminator")}
    settings = TrainConfig(freeze=["judge.fine"], freeze_global_epochs=2)
    for epoch in (0, 1):
        freeze_parts(networks, settings, epoch)
        assert frozen(networks) == {"AtoB": {"coarse"}, "judge": {"fine"}}
    freeze_parts(networks, settings, 2)
    assert frozen(networks) == {"AtoB": set(), "judge": {"fine"}}
    freeze_parts(networks, settings, 0)  # a checkpoint of an earlier epoch
    assert frozen(networks)["AtoB"] == {"coarse"}


@pytest.mark.parametrize(
    ("parts", "message"),
    [
        (["one.head"], "parts of one: no parameter's name begins with 'head'; the parts are coarse, fine"),
        (["one.coarse", "one.fine"], "train.freeze, parts of one: nothing would be left to train"),
        (["two.fine"], "train.freeze: no network 'two'; the networks are one"),
    ],
)
def test_freezing_a_missing_part_or_everything_is_an_error(parts: list[str], message: str) -> None:
    with pytest.raises(ConfigError, match=re.escape(message)):
        freeze_parts({"one": network("generator")}, TrainConfig(freeze=parts), epoch=0)
