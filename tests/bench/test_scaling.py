"""The exchange of gradients that the bench takes apart, and the comparison of processes."""

from collections.abc import Iterator

import pytest
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from bench.cases import Case
from bench.scaling import STEPS, Exchange, exchange_gradients, rows_of


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


def test_processes_are_compared_by_turns() -> None:
    turns = {1: [{"s": 1.0}, {"s": 10.0}], 2: [{"s": 1.0, "waiting s": 0.5}, {"s": 8.0, "waiting s": 0.25}]}
    one, two = rows_of(Case("x", 32, 32, batch_size=3), turns)
    expected = {"case": "x", "processes": 2, "images/s": 3.375, "against one": 2.25, "s": 4.5, "waiting s": 0.375}
    assert two == pytest.approx(expected)
    assert one["against one"] == 1.0
