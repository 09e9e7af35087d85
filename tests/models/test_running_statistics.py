from collections.abc import Callable
from typing import cast

import pytest
import torch
from torch import Tensor, nn

from models.activation_checkpointing import enable_activation_checkpointing
from models.global_generator import GlobalGenerator
from models.running_statistics import Untracked, batch_norms
from models.spade_generator import SpadeGenerator
from models.spectral_norm import add_spectral_norm

NETWORKS: dict[str, Callable[[], nn.Module]] = {
    "batch": lambda: GlobalGenerator(
        in_channels=3, base_channels=4, n_downsamplings=2, n_blocks=2, norm="batch", dropout=True
    ),
    "batch and spectral": lambda: add_spectral_norm(
        SpadeGenerator(in_channels=3, base_channels=2, n_upsamplings=3, hidden_channels=8, norm="batch")
    ),
}


@pytest.mark.parametrize("name", NETWORKS)
def test_a_pass_that_is_computed_again_does_not_count(name: str) -> None:
    results = []
    for is_on in (False, True):
        torch.manual_seed(0)
        network = NETWORKS[name]()
        if is_on:
            enable_activation_checkpointing(network)
        images = torch.randn(2, 2, 3, 16, 16)
        # two passes before a backward pass, one of which is computed again twice
        losses = [network(image).square().mean() for image in images]
        losses[0].backward(retain_graph=True)
        (losses[0] + losses[1]).backward()
        gradients = {name: cast(Tensor, weight.grad) for name, weight in network.named_parameters()}
        results.append(({"first": losses[0], "second": losses[1]}, gradients, network.state_dict()))
    for plain, recomputed in zip(*results, strict=True):
        assert plain.keys() == recomputed.keys()
        for key, value in plain.items():
            assert torch.equal(value, recomputed[key]), key


def test_untracked_passes_leave_the_very_buffers() -> None:
    network = nn.Sequential(nn.Conv2d(1, 2, 1), nn.BatchNorm2d(2), nn.BatchNorm2d(2, track_running_stats=False))
    (norm,) = batch_norms(network)
    before = {name: (buffer, buffer.clone()) for name, buffer in network.named_buffers()}
    context = Untracked([norm])
    for _ in range(2):
        with context, Untracked([norm]):
            network(torch.randn(3, 1, 4, 4))
    assert len(before) == 3
    for name, buffer in network.named_buffers():
        assert buffer is before[name][0], name
        assert torch.equal(buffer, before[name][1]), name
    network(torch.randn(3, 1, 4, 4))
    assert norm.num_batches_tracked == 1
