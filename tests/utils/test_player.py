import copy

import pytest
import torch
from torch import nn

from models.global_generator import GlobalGenerator
from utils.player import Player, make_adam


def make_player(weight_decay: float = 0.0) -> Player:
    torch.manual_seed(0)
    network = GlobalGenerator(in_channels=3, base_channels=2, n_downsamplings=1, n_blocks=12, norm="batch")
    adam = make_adam(network, learning_rate=0.1, betas=(0.5, 0.999), weight_decay=weight_decay)
    return Player(network, network, lambda module: module, adam, torch.amp.GradScaler("cpu", enabled=False), None)


def step(player: Player) -> None:
    player.backward(player.network(torch.ones(1, 3, 8, 8)).square().mean())
    player.step()


def changed(player: Player, before: dict[str, torch.Tensor]) -> set[str]:
    return {name for name, p in player.module.named_parameters() if not torch.equal(p, before[name])}


def parameters(player: Player) -> dict[str, torch.Tensor]:
    return {name: parameter.detach().clone() for name, parameter in player.module.named_parameters()}


def test_frozen_parts_keep_their_weights_and_get_no_gradient() -> None:
    player = make_player()
    player.freeze(["stem", "blocks.1", "head.1.bias"])
    before = parameters(player)
    player.backward(player.network(torch.ones(1, 3, 8, 8)).square().mean())
    without = {name for name, p in player.module.named_parameters() if p.grad is None}
    player.step()
    frozen = {name for name in before if name.startswith(("stem.", "blocks.1.")) or name == "head.1.bias"}
    assert "blocks.10.body.1.weight" not in frozen  # whole words of the name
    assert without == frozen
    assert changed(player, before) == set(before) - frozen


def test_what_is_thawed_trains_on_in_the_same_optimizer() -> None:
    player = make_player()
    optimizer = player.optimizer
    step(player)
    player.freeze(["stem"])
    step(player)
    player.freeze([])
    step(player)
    assert player.optimizer is optimizer
    steps = {name: int(state["step"]) for name, state in player.state_dict()["optimizer"].items()}
    assert steps["stem.1.weight"] == 2
    assert steps["head.1.weight"] == 3


def test_a_state_that_lacks_what_was_frozen_is_gone_on_with() -> None:
    player, other = make_player(), make_player()
    player.freeze(["stem"])
    step(player)
    state = copy.deepcopy(player.state_dict())
    assert "stem.1.weight" not in state["optimizer"]
    other.load_state_dict(state)
    for one in (player, other):
        one.freeze([])
        step(one)
    torch.testing.assert_close(other.state_dict(), player.state_dict(), rtol=0, atol=0)


def test_weight_decay_shrinks_convolutions_and_spares_biases_and_norms() -> None:
    decayed, plain = make_player(weight_decay=0.5), make_player()
    for player in (decayed, plain):
        step(player)
    start = parameters(make_player())
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
        make_player().freeze(prefixes)


def test_a_network_of_norms_and_biases_only_can_be_decayed() -> None:
    make_adam(nn.BatchNorm2d(2), learning_rate=0.1, betas=(0.5, 0.999), weight_decay=0.1)
