"""Activation checkpointing changes neither outputs nor gradients, and stores less."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from losses.objective import LossInputs
from losses.perceptual import VGG19Loss
from models.activation_checkpointing import enable_activation_checkpointing
from models.generator import Generator
from models.global_generator import GlobalGenerator, LocalEnhancer
from models.instance_features import FeatureConditionedGenerator, FeatureEncoder
from models.spade_generator import SpadeGenerator
from models.spectral_norm import add_spectral_norm
from models.unet_generator import UnetGenerator
from utils.errors import ConfigError

ANTIALIASED: dict[str, Any] = {"downsample": "antialiased", "upsample": "antialiased", "biased_downs": True}
SMALL: dict[str, Any] = {"in_channels": 3, "base_channels": 4, "n_downsamplings": 2, "n_blocks": 2}
SPADE: dict[str, Any] = {"in_channels": 3, "base_channels": 2, "n_upsamplings": 3, "hidden_channels": 8}
NETWORKS: dict[str, Callable[[], nn.Module]] = {
    "batch norm": lambda: GlobalGenerator(**SMALL, norm="batch", dropout=True),
    "spectral norm, u first": lambda: add_spectral_norm(GlobalGenerator(**SMALL, dropout=True)),
    "spectral norm, v first": lambda: add_spectral_norm(GlobalGenerator(**SMALL, dropout=True), iteration="v_first"),
    "residual upsampling": lambda: GlobalGenerator(**SMALL, upsample="residual"),
    "antialiased": lambda: GlobalGenerator(**SMALL, **ANTIALIASED),
    "local": lambda: LocalEnhancer(**SMALL, n_enhancer_blocks=1),
    "spade": lambda: add_spectral_norm(SpadeGenerator(**SPADE, norm="batch")),
    "unet": lambda: UnetGenerator(in_channels=3, base_channels=4, n_downsamplings=6),
    "encoder": lambda: FeatureEncoder(base_channels=4, n_downsamplings=2).network,
}


@pytest.mark.parametrize("name", NETWORKS)
def test_losses_gradients_and_buffers_are_the_same_and_less_is_stored(name: str) -> None:
    results, stored = [], []
    for is_on in (False, True):
        torch.manual_seed(0)
        network, kept = NETWORKS[name]().double(), dict[int, int]()
        if is_on:
            enable_activation_checkpointing(network)

        def keep(tensor: Tensor, kept: dict[int, int] = kept) -> Tensor:
            kept[tensor.untyped_storage().data_ptr()] = tensor.untyped_storage().nbytes()
            return tensor

        # two passes before a backward pass: each is recomputed with its own buffers, one of them twice
        with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
            losses = [network(image).square().mean() for image in torch.randn(2, 1, 3, 64, 64).double()]
        losses[0].backward(retain_graph=True)
        (losses[0] + losses[1]).backward()
        gradients = {key: weight.grad for key, weight in network.named_parameters()}
        results.append((losses, gradients, network.state_dict()))
        stored.append(sum(kept.values()))
    torch.testing.assert_close(*results, rtol=1e-12, atol=1e-15)
    assert stored[1] < 0.75 * stored[0]


def test_vgg_too(cached_vgg19: None) -> None:
    image, target = torch.rand(2, 1, 3, 32, 32)
    results = []
    for is_on in (False, True):
        loss = VGG19Loss(activation_checkpointing=is_on)
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
