"""The draws of DiffAugment in the update, and runs with it."""

from pathlib import Path

import pytest
import torch
from torch import Tensor

from configs.load import load_config
from tests.runs import checkpoint, run, with_slow
from tests.training.methods.test_paired_update import (
    POLICY,
    Recorded,
    make_pair,
    make_update,
    record,
    update_of,
)
from training.methods.paired import build_paired
from utils.distributed import World

SETTING = f"augmentation.policy=[{','.join(POLICY)}]"


@pytest.mark.parametrize(("retain_graph", "n_draws"), [(True, 4), (False, 6)])
def test_each_pass_and_each_step_of_the_discriminator_draws_its_own(retain_graph: bool, n_draws: int) -> None:
    update, passes = make_update(), update_of([make_pair(8)] * 2)
    recorded = record(update)
    update.retain_graph = retain_graph
    update.step([passes, passes])
    assert len(recorded.rows) == n_draws
    assert len({str(rows) for rows in recorded.rows}) == n_draws
    assert all(len(rows) == 8 for rows in recorded.rows)


def test_one_pass_judges_both_with_one_convolution_of_the_source(monkeypatch: pytest.MonkeyPatch) -> None:
    update, shapes = make_update(), []
    record(update)
    forward = update.discriminator.network.forward

    def watched(source: Tensor, image: Tensor) -> object:
        shapes.append((len(source), len(image)))
        return forward(source, image)

    monkeypatch.setattr(update.discriminator.network, "forward", watched)
    update.joint_update(update_of([make_pair(2)]))
    assert shapes == [(2, 4)]


def test_processes_draw_differently(tiny_config: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(World, "barrier", lambda _: None)
    monkeypatch.setattr(World, "wrap", lambda _, network: network)
    config = load_config(tiny_config, [SETTING])
    draws = []
    for rank in range(2):
        recorded = Recorded()
        build_paired(config, World(rank, 2, torch.device("cpu")))
        recorded.draw(torch.zeros(20, 3, 64, 64))
        draws += recorded.rows
    assert draws[0] != draws[1]


@pytest.mark.parametrize(
    "settings",
    with_slow(
        [
            ["amp.opt_level=O2", "amp.dtype=float16", "train.accumulation_steps=2"],
            ["discriminator.name=pixel", "loss.gan_mode=wgan", "loss.gradient_penalty=10", "train.pool_size=2"],
        ],
        [
            ["amp.opt_level=O1", "amp.dtype=float16"],
            ["amp.opt_level=O1", "amp.dtype=bfloat16", "train.retain_graph=false"],
            ["amp.opt_level=O2", "amp.dtype=bfloat16", "discriminator.norm=batch"],
            ["amp.opt_level=O3", "amp.dtype=bfloat16", "train.discriminator_steps=2", "data.target_channels=1"],
            ["features.n_channels=3", "features.base_channels=4", "features.n_downsamplings=1", "train.batch_size=2"],
        ],
    ),
    ids=" ".join,
)
def test_runs_of_other_settings_train_too(tiny_config: Path, settings: list[str]) -> None:
    run(tiny_config, SETTING, *settings, "train.max_steps=12")
    trained = checkpoint(tiny_config, 12)
    for name in ("generator", "discriminator"):
        # float16's scale begins too high with and without augmentation
        assert trained["optimizers"][name]["skipped_steps"] < 8
        assert all(state["step"] > 0 for state in trained["optimizers"][name]["moments"][name].values())
