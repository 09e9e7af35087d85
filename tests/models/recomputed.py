"""A check of passes that activation checkpointing computes again."""

from collections.abc import Callable
from typing import cast

import torch
from torch import Tensor, nn

from models.activation_checkpointing import enable_activation_checkpointing


def assert_recomputed_alike(make: Callable[[], nn.Module], images: Callable[[], Tensor]) -> None:
    """Passes that are computed again give the same losses, gradients and buffers.

    images: draws the images of two passes, (2, N, C, H, W).
    """
    results = []
    for is_on in (False, True):
        torch.manual_seed(0)
        network = make()
        if is_on:
            enable_activation_checkpointing(network)
        # two passes before a backward pass: each has to be computed again with its own buffers, one of them twice
        losses = [network(image).square().mean() for image in images()]
        losses[0].backward(retain_graph=True)
        (losses[0] + losses[1]).backward()
        gradients = {name: cast(Tensor, weight.grad) for name, weight in network.named_parameters()}
        results.append(({"first": losses[0], "second": losses[1]}, gradients, network.state_dict()))
    for plain, recomputed in zip(*results, strict=True):
        assert plain.keys() == recomputed.keys()
        for key, value in plain.items():
            assert torch.equal(value, recomputed[key]), key
