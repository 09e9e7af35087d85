"""Parts of networks that are not trained, by the names of networks and by their roles."""

import re

import pytest
from torch import nn

from training.freezing import Freezing
from training.trained_network import Role, TrainedNetwork
from utils.errors import ConfigError


def network(role: Role) -> TrainedNetwork:
    module = nn.ModuleDict({"coarse": nn.Conv2d(1, 1, 1), "fine": nn.Conv2d(1, 1, 1)})
    return TrainedNetwork(module, module, lambda same: same, role)


def frozen(networks: dict[str, TrainedNetwork]) -> dict[str, set[str]]:
    return {
        name: {key.split(".")[0] for key, weight in one.module.named_parameters() if not weight.requires_grad}
        for name, one in networks.items()
    }


def test_coarse_parts_are_trained_after_their_epochs_and_others_never() -> None:
    networks = {"AtoB": network("generator"), "BtoA": network("generator"), "judge": network("discriminator")}
    freezing = Freezing(networks, ["judge.fine"], {"AtoB": ["coarse"]}, coarse_epochs=2)
    for epoch in (0, 1):
        freezing.apply(epoch)
        assert frozen(networks) == {"AtoB": {"coarse"}, "BtoA": set(), "judge": {"fine"}}
    freezing.apply(2)
    assert frozen(networks) == {"AtoB": set(), "BtoA": set(), "judge": {"fine"}}
    freezing.apply(0)  # a checkpoint of an earlier epoch
    assert frozen(networks)["AtoB"] == {"coarse"}


def test_networks_are_wrapped_again_only_where_something_changes() -> None:
    calls = []

    def wrap(module: nn.Module) -> nn.Module:
        calls.append(module)
        return module

    module = nn.ModuleDict({"coarse": nn.Conv2d(1, 1, 1), "fine": nn.Conv2d(1, 1, 1)})
    freezing = Freezing({"one": TrainedNetwork(module, module, wrap, "generator")}, [], {"one": ["coarse"]}, 1)
    for epoch in (0, 0, 1, 2):
        freezing.apply(epoch)
    assert len(calls) == 3  # when it is made, frozen, and trained again


@pytest.mark.parametrize(
    ("parts", "message"),
    [
        (["one.head"], "parts of one: no parameter's name begins with 'head'; the parts are coarse, fine"),
        (["one.coarse", "one.fine"], "train.freeze, parts of one: nothing would be left to train"),
        (["two.fine"], "train.freeze: no network 'two'; the networks are one"),
    ],
)
def test_a_part_that_there_is_not_and_nothing_left_are_errors(parts: list[str], message: str) -> None:
    with pytest.raises(ConfigError, match=re.escape(message)):
        Freezing({"one": network("generator")}, parts).apply(0)
