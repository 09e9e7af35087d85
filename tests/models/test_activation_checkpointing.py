"""Activation checkpointing changes neither outputs nor gradients, and stores less."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from losses.objective import LossInputs
from losses.perceptual import PerceptualLoss, VGG19Features
from models.activation_checkpointing import enable_activation_checkpointing
from models.blocks import Norm
from models.generator import Generator
from models.global_generator import GlobalGenerator, LocalEnhancer
from models.instance_features import FeatureConditionedGenerator, FeatureEncoder
from models.spade_generator import SpadeGenerator
from models.spectral_norm import add_spectral_norm
from models.unet_generator import UnetGenerator
from utils.errors import ConfigError

ANTIALIASED: dict[str, Any] = {"downsample": "antialiased", "upsample": "antialiased", "biased_downs": True}
NETWORKS: list[Callable[[], nn.Module]] = [
    lambda: GlobalGenerator(in_channels=3, base_channels=4, n_downsamplings=2, n_blocks=2, dropout=True),
    lambda: GlobalGenerator(in_channels=3, base_channels=4, n_downsamplings=2, n_blocks=1, upsample="residual"),
    lambda: GlobalGenerator(in_channels=3, base_channels=4, n_downsamplings=2, n_blocks=1, **ANTIALIASED),
    lambda: LocalEnhancer(in_channels=3, base_channels=4, n_downsamplings=2, n_blocks=1, n_enhancer_blocks=1),
    lambda: add_spectral_norm(SpadeGenerator(in_channels=3, base_channels=2, n_upsamplings=4, hidden_channels=8)),
    lambda: UnetGenerator(in_channels=3, base_channels=4, n_downsamplings=6),
    lambda: FeatureEncoder(base_channels=4, n_downsamplings=2).network,
]


def outcome(network: nn.Module, x: Tensor) -> tuple[Tensor, dict[str, Tensor], int]:
    """Return the output, the gradients by name, and the bytes that were stored for the backward pass."""
    kept: dict[int, int] = {}

    def keep(tensor: Tensor) -> Tensor:
        kept[tensor.untyped_storage().data_ptr()] = tensor.untyped_storage().nbytes()
        return tensor

    torch.manual_seed(1)
    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        output = network(x)
    output.square().mean().backward()
    return (
        output,
        {name: p.grad.clone() for name, p in network.named_parameters() if p.grad is not None},
        sum(kept.values()),
    )


@pytest.mark.parametrize("make", NETWORKS)
def test_outputs_and_gradients_are_the_same_and_less_is_kept(make: Callable[[], nn.Module]) -> None:
    torch.manual_seed(0)
    plain, recomputing = make().double(), make().double()
    recomputing.load_state_dict(plain.state_dict())
    enable_activation_checkpointing(recomputing)
    x = torch.randn(1, 3, 64, 64, dtype=torch.float64)
    output, gradients, kept = outcome(plain, x)
    again, gradients_again, kept_again = outcome(recomputing, x)
    torch.testing.assert_close(again, output, rtol=0, atol=0)
    torch.testing.assert_close(gradients_again, gradients, rtol=1e-12, atol=1e-15)
    assert kept_again < 0.75 * kept


def test_vgg_too(vgg19_weights: dict[str, Tensor]) -> None:
    image, target = torch.rand(2, 1, 3, 32, 32)
    results = []
    for is_on in (False, True):
        loss = PerceptualLoss(VGG19Features(vgg19_weights, activation_checkpointing=is_on))
        fake = image.clone().requires_grad_()
        value = loss(LossInputs(fake, target, target, discriminate_fake=list, discriminate_target=list))
        value.backward()
        assert fake.grad is not None
        results.append((value, fake.grad))
    torch.testing.assert_close(results[0], results[1])


def test_a_generator_without_parts_to_recompute_is_refused() -> None:
    class Plain(Generator):
        pass

    for network in (Plain(), FeatureConditionedGenerator(Plain(), FeatureEncoder(base_channels=2, n_downsamplings=1))):
        with pytest.raises(ConfigError, match=r"^train\.activation_checkpointing: Plain has no parts to recompute\."):
            enable_activation_checkpointing(network)


def with_dropout(norm: Norm = "instance") -> nn.Module:
    return GlobalGenerator(in_channels=3, base_channels=4, n_downsamplings=2, n_blocks=2, norm=norm, dropout=True)


WITH_NORMS: dict[str, Callable[[], nn.Module]] = {
    "u_first": lambda: add_spectral_norm(with_dropout(), iteration="u_first"),
    "v_first": lambda: add_spectral_norm(with_dropout(), iteration="v_first"),
    "batch": lambda: with_dropout("batch"),
    "batch and spectral": lambda: add_spectral_norm(
        SpadeGenerator(in_channels=3, base_channels=2, n_upsamplings=3, hidden_channels=8, norm="batch")
    ),
}


@pytest.mark.parametrize("name", WITH_NORMS)
def test_a_pass_that_is_computed_again_iterates_nothing_and_does_not_count(name: str) -> None:
    results = []
    for is_on in (False, True):
        torch.manual_seed(0)
        network = WITH_NORMS[name]()
        if is_on:
            enable_activation_checkpointing(network)
        # two passes before a backward pass: each has to be computed again with its own buffers, one of them twice
        losses = [network(image).square().mean() for image in torch.randn(2, 2, 3, 16, 16)]
        losses[0].backward(retain_graph=True)
        (losses[0] + losses[1]).backward()
        gradients = {key: weight.grad for key, weight in network.named_parameters()}
        results.append((losses, gradients, network.state_dict()))
    torch.testing.assert_close(*results, rtol=0, atol=0)
