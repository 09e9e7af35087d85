import copy

import pytest
import torch
import torch.distributed as dist
from torch import nn

from models.global_generator import GlobalGenerator
from training.trainable import TrainableNetwork, make_adam
from utils.distributed import World


def make_network(weight_decay: float = 0.0) -> TrainableNetwork:
    torch.manual_seed(0)
    network = GlobalGenerator(in_channels=3, base_channels=2, n_downsamplings=1, n_blocks=12, norm="batch")
    adam = make_adam(network, learning_rate=0.1, betas=(0.5, 0.999), weight_decay=weight_decay)
    return TrainableNetwork(
        network, network, lambda module: module, adam, torch.amp.GradScaler("cpu", enabled=False), None
    )


def step(trainable: TrainableNetwork) -> None:
    trainable.backward(trainable.network(torch.ones(1, 3, 8, 8)).square().mean())
    trainable.step()


def changed(trainable: TrainableNetwork, before: dict[str, torch.Tensor]) -> set[str]:
    return {name for name, p in trainable.module.named_parameters() if not torch.equal(p, before[name])}


def parameters(trainable: TrainableNetwork) -> dict[str, torch.Tensor]:
    return {name: parameter.detach().clone() for name, parameter in trainable.module.named_parameters()}


def test_frozen_parts_keep_their_weights_and_get_no_gradient() -> None:
    trainable = make_network()
    trainable.freeze(["stem", "blocks.1", "head.1.bias"])
    before = parameters(trainable)
    trainable.backward(trainable.network(torch.ones(1, 3, 8, 8)).square().mean())
    without = {name for name, p in trainable.module.named_parameters() if p.grad is None}
    trainable.step()
    frozen = {name for name in before if name.startswith(("stem.", "blocks.1.")) or name == "head.1.bias"}
    assert "blocks.10.body.1.weight" not in frozen  # whole words of the name
    assert without == frozen
    assert changed(trainable, before) == set(before) - frozen


def test_what_is_thawed_trains_on_in_the_same_optimizer() -> None:
    trainable = make_network()
    optimizer = trainable.optimizer
    step(trainable)
    trainable.freeze(["stem"])
    step(trainable)
    trainable.freeze([])
    step(trainable)
    assert trainable.optimizer is optimizer
    steps = {name: int(state["step"]) for name, state in trainable.state_dict()["optimizer"].items()}
    assert steps["stem.1.weight"] == 2
    assert steps["head.1.weight"] == 3


def test_ddp_s_buckets_of_what_was_trained_before_are_freed_at_once() -> None:
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    try:
        gc.disable()
        network = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 1))
        adam = make_adam(network, learning_rate=0.1, betas=(0.5, 0.999), weight_decay=0)
        wrap = World(0, 2, torch.device("cpu")).wrap
        scaler = torch.amp.GradScaler("cpu", enabled=False)
        trainable = TrainableNetwork(network, network, wrap, adam, scaler, None)
        for prefixes in (["0"], []):
            trainable.backward(trainable.network(torch.ones(1, 2)).square().mean())
            trainable.step()
            earlier = weakref.ref(trainable.network)
            trainable.freeze(prefixes)
            assert earlier() is None
    finally:
        gc.enable()
        del trainable
        dist.destroy_process_group()


def test_a_state_that_lacks_what_was_frozen_is_gone_on_with() -> None:
    trainable, other = make_network(), make_network()
    trainable.freeze(["stem"])
    step(trainable)
    state = copy.deepcopy(trainable.state_dict())
    assert "stem.1.weight" not in state["optimizer"]
    other.load_state_dict(state)
    for one in (trainable, other):
        one.freeze([])
        step(one)
    torch.testing.assert_close(other.state_dict(), trainable.state_dict(), rtol=0, atol=0)


def test_weight_decay_shrinks_convolutions_and_spares_biases_and_norms() -> None:
    decayed, plain = make_network(weight_decay=0.5), make_network()
    for trainable in (decayed, plain):
        step(trainable)
    start = parameters(make_network())
    for name, parameter in plain.module.named_parameters():
        shrunk = decayed.module.get_parameter(name) - parameter
        # AdamW: what the step at learning rate 0.1 takes away beside the gradient's part
        expected = -0.1 * 0.5 * start[name] if parameter.dim() > 1 else torch.zeros_like(parameter)
        torch.testing.assert_close(shrunk, expected, rtol=1e-4, atol=1e-7)


@pytest.mark.parametrize(
    ("prefixes", "complaint"),
    [
        (["stm"], r"no parameter's name begins with 'stm'; the parts are stem.1, stem.2, downs.0, blocks.0, "),
        (["stem", "downs", "blocks", "ups", "head"], "nothing would be left to train"),
    ],
)
def test_what_cannot_be_frozen_is_told(prefixes: list[str], complaint: str) -> None:
    with pytest.raises(ValueError, match=complaint):
        make_network().freeze(prefixes)


def test_a_network_of_norms_and_biases_only_can_be_decayed() -> None:
    make_adam(nn.BatchNorm2d(2), learning_rate=0.1, betas=(0.5, 0.999), weight_decay=0.1)
