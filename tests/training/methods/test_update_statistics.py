"""Running statistics of batch norm after updates that are left out."""

from collections.abc import Sequence
from typing import Any

import pytest
import torch
from torch import Tensor

from models.running_statistics import running_statistics
from tests.runs import assert_equal
from tests.training.methods.updates import Pair, make_pair, make_update, update_of
from training.methods.paired import Paired
from training.optimizer_group import are_finite


def make_batch_normed(*, retain_graph: bool) -> Paired:
    update = make_update(norm="batch", dtype=torch.float32)
    update.retain_graph = retain_graph
    return update


def step(update: Any, *groups: Sequence[Pair]) -> None:
    """Step by passes that are given by their inputs."""
    update.inputs = lambda inputs: inputs
    update.step([update_of(pairs) for pairs in groups])


def statistics(update: Paired) -> dict[str, list[Tensor]]:
    modules = {name: network.module for name, network in update.networks.items()}
    return {name: [s.clone() for s in running_statistics(module)] for name, module in modules.items()}


@pytest.mark.parametrize("retain_graph", [True, False])
@pytest.mark.parametrize("place", ["only", "first pass", "last pass", "first group"])
def test_a_pass_that_overflows_leaves_no_trace(retain_graph: bool, place: str) -> None:
    update = make_batch_normed(retain_graph=retain_graph)
    source, target = make_pair(dtype=torch.float32)
    good, bad = (source, target), (source * torch.inf, target)
    step(update, [good])
    before = statistics(update)
    groups = {"only": [[bad]], "first pass": [[bad, good]], "last pass": [[good, bad]], "first group": [[bad], [good]]}
    step(update, *groups[place])
    after = statistics(update)
    assert_equal(after, before)
    assert all(are_finite(group.moments) for group in update.optimizers.values())
    step(update, [good])
    assert all(
        not torch.equal(new, old)
        for name, values in statistics(update).items()
        for new, old in zip(values, after[name], strict=True)
    )
