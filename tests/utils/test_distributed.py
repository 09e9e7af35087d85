"""The world of GPUs, as far as it goes without one: NCCL's arguments, and norms that are synchronized."""

from collections.abc import Callable
from datetime import timedelta
from functools import partial
from typing import Any
from unittest.mock import Mock, create_autospec

import pytest
import torch
import torch.distributed as dist
from torch import nn

from models import DISCRIMINATORS, GENERATORS
from models.running_statistics import batch_norms, running_statistics
from utils import distributed
from utils.device import choose_precision
from utils.distributed import World, joined_world

GPU = torch.device("cuda", 1)
NETWORKS: dict[str, Callable[..., nn.Module]] = {
    name: partial(maker, in_channels=3, norm="batch") for name, maker in GENERATORS.items()
}
NETWORKS |= {
    name: partial(DISCRIMINATORS[name], source_channels=3, norm="batch") for name in ("multiscale_patch", "pixel")
}


def test_gpus_are_joined_by_nccl_and_their_hosts_by_gloo(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {"RANK": 3, "WORLD_SIZE": 4, "LOCAL_RANK": 1, "LOCAL_WORLD_SIZE": 2}.items():
        monkeypatch.setenv(name, str(value))
    join, group = (create_autospec(function) for function in (dist.init_process_group, dist.new_group))
    set_device = Mock()
    monkeypatch.setattr(dist, "init_process_group", join)
    monkeypatch.setattr(dist, "new_group", group)
    store, waits = dist.HashStore(), timedelta(seconds=5)
    monkeypatch.setattr(distributed, "choose_device", lambda device, index, option: torch.device("cuda", index))
    monkeypatch.setattr(distributed, "fresh_store", lambda _: (store, 3, 4))  # asks a server
    monkeypatch.setattr(torch.cuda, "set_device", set_device)
    with joined_world("auto", timeout_s=5) as world:
        assert world == World(3, 4, GPU, 2, control=group.return_value)
    set_device.assert_called_once_with(GPU)
    join.assert_called_once_with("nccl", store=store, rank=3, world_size=4, timeout=waits, device_id=GPU)
    group.assert_called_once_with(backend="gloo", timeout=waits)
    assert dist.is_nccl_available() == torch.backends.cuda.is_built()


@pytest.mark.parametrize("level", ["O0", "O2"])
@pytest.mark.parametrize("name", NETWORKS)
def test_synchronized_norms_have_the_tensors_of_the_trained_network(
    name: str, level: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So optimizers, averages and checkpoints know nothing of them."""
    monkeypatch.setattr(distributed, "DistributedDataParallel", lambda module, **_: module)
    with torch.device("meta"):
        network = NETWORKS[name]()
    before, n_norms = network.state_dict(keep_vars=True), len(batch_norms(network))
    copy = choose_precision(level, "bfloat16", torch.device("cpu")).compute_copy(network)
    wrapped = World(0, 2, GPU).wrap(copy)
    assert n_norms == sum(isinstance(module, nn.SyncBatchNorm) for module in wrapped.modules()) > 0
    after = network.state_dict(keep_vars=True)
    assert list(after) == list(before) == list(wrapped.state_dict())
    assert all(after[key] is before[key] for key in before)
    pairs = zip(running_statistics(wrapped), running_statistics(network), strict=True)
    assert all(synchronized is trained for synchronized, trained in pairs)
