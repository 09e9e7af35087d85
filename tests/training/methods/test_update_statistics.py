"""Running statistics of batch norm after updates that are left out."""

import pytest
import torch
from torch import Tensor

from models.running_statistics import running_statistics
from tests.runs import assert_equal
from tests.training.methods.test_paired_update import make_pair, make_update, update_of
from training.methods.paired import PairedUpdate
from training.optimizer_group import are_finite


def make_batch_normed(*, retain_graph: bool) -> PairedUpdate:
    update = make_update(norm="batch", dtype=torch.float32)
    update.retain_graph = retain_graph
    return update


def statistics(update: PairedUpdate) -> dict[str, list[Tensor]]:
    networks = {"generator": update.generator, "discriminator": update.discriminator}
    return {name: [s.clone() for s in running_statistics(network.module)] for name, network in networks.items()}


@pytest.mark.parametrize("retain_graph", [True, False])
@pytest.mark.parametrize("place", ["only", "first pass", "last pass", "first group"])
def test_a_pass_that_overflows_leaves_no_trace(retain_graph: bool, place: str) -> None:
    update = make_batch_normed(retain_graph=retain_graph)
    source, target = make_pair(dtype=torch.float32)
    good, bad = (source, target), (source * torch.inf, target)
    update.step([update_of([good])])
    before = statistics(update)
    groups = {"only": [[bad]], "first pass": [[bad, good]], "last pass": [[good, bad]], "first group": [[bad], [good]]}
    update.step([update_of(pairs) for pairs in groups[place]])
    after = statistics(update)
    assert_equal(after, before)
    assert all(are_finite(group.moments) for group in update.optimizers.values())
    update.step([update_of([good])])
    assert all(
        not torch.equal(new, old)
        for name, values in statistics(update).items()
        for new, old in zip(values, after[name], strict=True)
    )


@pytest.mark.parametrize("retain_graph", [True, False])
@pytest.mark.parametrize(("broken", "healthy"), [("generator", "discriminator"), ("discriminator", "generator")])
def test_an_update_that_is_left_out_leaves_its_network_s_statistics_alone(
    retain_graph: bool, broken: str, healthy: str
) -> None:
    update = make_batch_normed(retain_graph=retain_graph)
    before = statistics(update)
    update.optimizers[broken].parameters[0].register_hook(lambda gradient: gradient * torch.nan)
    update.step([update_of([make_pair(dtype=torch.float32)])])
    after = statistics(update)
    assert_equal(after[broken], before[broken])
    assert not any(torch.equal(new, old) for new, old in zip(after[healthy], before[healthy], strict=True))
