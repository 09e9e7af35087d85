"""Numbers that are not finite: row 14."""

import json
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

import losses
from losses.adversarial import LeastSquares
from models.global_generator import GlobalGenerator
from tests.processes import torchrun
from tests.reliability.faults import Fault, inject, spoilt
from tests.runs import assert_equal, checkpoint, run
from training.optimizer_group import are_finite
from training.run import Training
from utils.checkpoint_folder import latest_step, list_checkpoints
from utils.device import Precision
from utils.errors import UserError

pytestmark = pytest.mark.row(14)

ALWAYS = range(10**6)


@pytest.mark.parametrize(("owner", "name", "value"), [(LeastSquares, "score", torch.nan), (losses, "l1", torch.inf)])
def test_no_update_is_made_from_it(
    tiny_config: Path, monkeypatch: pytest.MonkeyPatch, owner: object, name: str, value: float
) -> None:
    # the first step has at most three terms
    monkeypatch.setattr(owner, name, spoilt(getattr(owner, name), range(1, 4), value))
    run(tiny_config, "train.max_steps=3", "checkpoint.every_steps=1", "checkpoint.keep=0")
    skipped = [group["skipped_steps"] for group in checkpoint(tiny_config, 3)["optimizers"].values()]
    assert max(skipped) >= 1
    for step in (1, 2, 3):
        networks = checkpoint(tiny_config, step)["networks"]
        assert all(are_finite(weights.values()) for weights in networks.values())


def test_a_pass_that_overflows_poisons_neither_statistics_nor_figures(
    tiny_config: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    original, passes = GlobalGenerator.forward, count()

    def overflowing(self: GlobalGenerator, source: Tensor) -> Tensor:
        is_second = self.training and next(passes) == 1
        return original(self, source * torch.inf if is_second else source)

    monkeypatch.setattr(GlobalGenerator, "forward", overflowing)
    settings = ["generator.norm=batch", "discriminator.norm=batch", "train.retain_graph=false"]
    often = ["checkpoint.every_steps=1", "checkpoint.keep=0", "log.images_every_steps=1", "log.every_steps=3"]
    run(tiny_config, *settings, *often, "train.ema_decay=0.9", "train.max_steps=3")
    lines = (tiny_config.parent / "runs" / "tiny" / "metrics.jsonl").read_text().splitlines()
    records = [json.loads(line, parse_constant=pytest.fail) for line in lines]
    assert {"loss/G/total", "loss/D/total", "validation/l1"} <= {tag for record in records for tag in record}
    assert not any(value is None for record in records for value in record.values())
    states = [checkpoint(tiny_config, step) for step in (1, 2, 3)]
    for network in ("generator", "discriminator"):
        weights = [state["networks"][network] for state in states]
        statistics = [{name: value for name, value in each.items() if "running_" in name} for each in weights]
        assert statistics[0]
        assert_equal(statistics[1], statistics[0])
        assert all(not torch.equal(value, statistics[0][name]) for name, value in statistics[2].items())


def test_all_updates_left_out_end_the_run_in_words_with_everything_saved(
    tiny_config: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run(tiny_config, "train.max_steps=3", "checkpoint.every_steps=1")
    before = checkpoint(tiny_config, 3)
    monkeypatch.setattr(losses, "l1", spoilt(losses.l1, ALWAYS, torch.nan))
    with pytest.raises(UserError, match=r"not finite 1\d times in a row.* facade_0000.* optimizer.learning_rate"):
        run(tiny_config, "train.max_steps=1000")
    step = latest_step(tiny_config.parent / "runs" / "tiny")
    assert 3 < step <= 20  # saved before it ended
    assert_equal(checkpoint(tiny_config, step)["networks"]["generator"], before["networks"]["generator"])


def test_a_storm_of_overflows_ends_within_50_steps(tiny_config: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Precision, "make_scaler", lambda _: torch.amp.GradScaler("cpu"))
    monkeypatch.setattr(losses, "l1", spoilt(losses.l1, ALWAYS, torch.inf))
    with pytest.raises(UserError, match=r"The loss scale has fallen to "):
        run(tiny_config, "train.max_steps=1000")
    assert 0 < latest_step(tiny_config.parent / "runs" / "tiny") <= 50


@pytest.mark.parametrize("where", ["weight", "moment", "average"])
def test_a_poisoned_checkpoint_is_not_written(tiny_config: Path, monkeypatch: pytest.MonkeyPatch, where: str) -> None:
    original, saves = Training.state_dict, count(1)

    def poisoned(self: Training, processes: list[dict[str, Any]]) -> dict[str, Any]:
        if next(saves) == 1:
            return original(self, processes)
        optimizer = self.method.optimizers["generator"].optimizer
        target = {
            "weight": next(self.method.networks["generator"].module.parameters()),
            "moment": next(iter(optimizer.state.values()))["exp_avg"],
            "average": next(self.averages["generator"].module.parameters()),
        }[where]
        target.data.view(-1)[0] = float("nan")
        return original(self, processes)

    monkeypatch.setattr(Training, "state_dict", poisoned)
    name = "average" if where == "average" else "generator"
    with pytest.raises(UserError, match=f"the {name} is not finite and is not saved"):
        run(tiny_config, "train.ema_decay=0.9", "checkpoint.every_steps=2", "train.max_steps=4")
    (kept,) = list_checkpoints(tiny_config.parent / "runs" / "tiny")
    assert kept.name == "checkpoint-00000002.pt"


def test_one_rank_s_numbers_leave_out_the_step_on_all(tiny_config: Path) -> None:
    spoils = partial(inject, Fault("loss", "nan", call=3, rank=1))
    with torchrun(tiny_config, "train.max_steps=5", "log.every_steps=1", prepare=spoils) as processes:
        assert processes.wait_for_all() == 0, processes.said()
    state = checkpoint(tiny_config, 5)
    assert state["optimizers"]["generator"]["skipped_steps"] == 1
    assert are_finite(state["networks"]["generator"].values())
