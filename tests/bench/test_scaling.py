"""The exchange of gradients that the bench takes apart."""

from collections.abc import Iterator

import pytest
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from bench.scaling import STEPS, Exchange, exchange_gradients


@pytest.fixture
def _world_of_one() -> Iterator[None]:
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    yield
    dist.destroy_process_group()


@pytest.mark.usefixtures("_world_of_one")
@pytest.mark.parametrize("how", STEPS)
def test_gradients_are_those_of_a_plain_step_and_their_bytes_are_counted(how: str) -> None:
    layer = nn.Linear(3, 2)
    layer(torch.ones(1, 3)).sum().backward()
    expected = [parameter.grad for parameter in layer.parameters()]
    layer.zero_grad()
    exchange = Exchange(torch.device("cpu"))
    exchange.how = how
    network = DistributedDataParallel(layer)
    network.register_comm_hook(exchange, exchange_gradients)
    network(torch.ones(1, 3)).sum().backward()
    torch.testing.assert_close([parameter.grad for parameter in layer.parameters()], expected)
    n_bytes, waiting_s, exchanging_s = exchange.took
    assert n_bytes == (4 * 8 if how == "in turn" else 0)
    assert (waiting_s > 0) == (exchanging_s > 0) == (how == "in turn")
