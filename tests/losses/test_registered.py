"""Losses that the program that calls `train` registers."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from configs.build import build_generator_objective
from configs.load import load_config
from losses import REGISTERED_LOSSES, register_loss
from losses.objective import GeneratorObjective, LossInputs
from tests.runs import checkpoint, records, run
from tests.training.methods.test_outside_mask import ALONE, batch, config
from training.methods import METHODS
from utils.errors import ConfigError


@pytest.fixture(autouse=True)
def no_registered_losses() -> Iterator[None]:
    yield
    REGISTERED_LOSSES.clear()


def edges(translation: LossInputs) -> Tensor:
    return (translation.fake - translation.target).diff(dim=-1).abs().mean()


class OfNetwork(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.network = nn.Conv2d(3, 1, 1)

    def forward(self, translation: LossInputs) -> Tensor:
        loss: Tensor = self.network(translation.fake).float().square().mean()
        return loss


@pytest.mark.parametrize(
    ("name", "loss", "weight", "message"),
    [
        ("l1", edges, 1.0, "loss 'l1': "),
        ("edges", edges, -1.0, r"loss 'edges': its weight is -1\.0, expected a number of at least 0"),
        ("edges", edges, "5", "its weight is '5', expected a number of at least 0"),
    ],
)
def test_unusable_losses_are_not_registered(name: str, loss: Any, weight: Any, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        register_loss(name, loss, weight)


@pytest.mark.parametrize(("returned", "found"), [(torch.ones(2, 3), r"a tensor of shape \(2, 3\)"), (0.5, "float")])
def test_a_loss_that_returns_no_0d_tensor_is_refused_by_name(returned: Any, found: str) -> None:
    objective, unread = GeneratorObjective({"edges": (lambda _: returned, 5.0)}), torch.empty(0)
    with pytest.raises(ConfigError, match=f"^loss 'edges': returned {found}"):
        objective(LossInputs(unread, unread, unread, list, list))


def test_a_loss_is_replaced_and_removed_by_its_name(tiny_config: Path) -> None:
    config, device = load_config(tiny_config), torch.device("cpu")
    before = build_generator_objective(config, device).losses
    for weight in (2.0, np.float64(3)):
        register_loss("edges", edges, weight)
    losses = build_generator_objective(config, device).losses
    assert losses.keys() == {*before, "edges"}
    assert losses["edges"] == (edges, 3.0)
    assert type(losses["edges"][1]) is float  # a checkpoint holds it
    register_loss("edges", edges, 0)
    assert build_generator_objective(config, device).losses.keys() == before.keys()


def test_runs_record_registered_losses_and_resume_without_them(
    tiny_config: Path, caplog: pytest.LogCaptureFixture
) -> None:
    register_loss("edges", edges, 100.0)
    register_loss("of_network", OfNetwork(), 1.0)
    run(tiny_config, "train.max_steps=2", "amp.opt_level=O1")
    assert "losses         edges 100, of_network 1, registered" in caplog.messages
    (figures,) = records(tiny_config, "loss/G/edges")
    parts = [("adversarial", 1), ("feature_matching", 10), ("l1", 10), ("edges", 100), ("of_network", 1)]
    expected = sum(weight * figures[f"loss/G/{name}"] for name, weight in parts)
    assert figures["loss/G/total"] == pytest.approx(expected, rel=1e-2)
    state = json.loads((tiny_config.parent / "runs" / "tiny" / "state.json").read_text())
    assert state["registered_losses"] == {"edges": 100.0, "of_network": 1.0}
    register_loss("edges", edges, 7.0)
    with pytest.raises(ConfigError, match=r"registered losses .*edges': 100.* -> .*edges': 7"):
        run(tiny_config, "train.max_steps=2", "amp.opt_level=O1")
    REGISTERED_LOSSES.clear()
    run(tiny_config, "train.max_steps=3", "amp.opt_level=O1")
    assert "registered losses have changed: {'edges': 100.0, 'of_network': 1.0} -> none" in caplog.messages
    assert "registered_losses" not in checkpoint(tiny_config, 3)


@pytest.mark.parametrize(
    ("method", "names"), [("contrastive", ["brightness"]), ("cycle", ["brightness_A", "brightness_B"])]
)
def test_registered_losses_train_without_pairs(method: str, names: list[str]) -> None:
    register_loss("brightness", lambda made: made.fake.float().mean().abs(), 2.0)
    trained = METHODS[method](config(method), ALONE)
    trained.step([[batch([[7, 9], [255, 0]])]])
    means = trained.means.flush(ALONE)
    assert all(means[f"loss/G/{name}"] > 0 for name in names)
