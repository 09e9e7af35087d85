"""The parts of a run, and what a checkpoint holds of them, whatever the names of the networks."""

import copy
from typing import Any

import pytest
import torch

from data.batch import Batch
from data.loader import read_fixed
from tests.runs import assert_equal
from tests.training.conftest import Build, FakeMethod
from training.optimizer_group import Plateau
from training.run import LoopState, Training

AVERAGED = ["train.ema_decay=0.9", "optimizer.decay=plateau"]


def step(training: Training) -> None:
    training.method.step([[Batch.of([read_fixed(training.splits.train, training.preprocessing, 0)])]])
    training.update_averages()


def saved(training: Training) -> dict[str, Any]:
    return copy.deepcopy(training.state_dict([training.process_state()]))


def test_restored_run_continues_as_if_never_stopped(build_fake: Build) -> None:
    first = build_fake(*AVERAGED)
    first.loop.step, first.loop.batches = 3, 7
    assert first.schedule.plateau
    first.schedule.plateau.factor = 0.2
    step(first)
    torch.manual_seed(7)
    state = saved(first)
    assert list(state["networks"]) == ["painter", "critic"]
    assert list(state["optimizers"]) == ["group of painter", "group of critic"]
    assert list(state["averages"]) == ["painter"]
    expected = torch.rand(3)

    second = build_fake(*AVERAGED)
    second.load_state_dict(state)
    assert torch.equal(torch.rand(3), expected)
    assert isinstance(second.method, FakeMethod)
    assert second.method.loaded == {"own": 7}
    assert second.schedule.plateau == first.schedule.plateau
    for training in (first, second):
        step(training)
        torch.manual_seed(0)
    assert_equal(saved(second), saved(first))


@pytest.mark.parametrize(("batch_size", "per_epoch", "batches"), [(2, 5, 7), (1, 10, 14), (4, 2, 3), (2, 1, 2)])
def test_a_position_is_independent_of_the_batch_size(batch_size: int, per_epoch: int, batches: int) -> None:
    saved = LoopState(batches_per_epoch=5, joint_batch_size=2, step=7, batches=7)  # 4 samples into the second epoch
    loaded = LoopState(per_epoch, batch_size)
    loaded.load_state_dict(saved.state_dict())
    assert (loaded.step, loaded.batches) == (7, batches)


@pytest.mark.parametrize("n_images", [3, 60, 200, 5000])
def test_steps_per_epoch_gives_the_same_schedule_for_any_number_of_images(n_images: int) -> None:
    state = LoopState(n_images, joint_batch_size=1, steps_per_epoch=200)
    assert state.last_step(n_epochs=9, batches_per_step=2) == 1800
    epochs = []
    for step in (0, 199, 200, 1799):
        state.step, state.batches = step, 2 * step
        epochs.append((state.epoch, state.n_started_epochs))
    assert epochs == [(0, 0), (0, 1), (1, 1), (8, 9)]
    state.load_state_dict(state.state_dict())
    assert (state.step, state.epoch) == (1799, 8)


def test_an_average_that_a_checkpoint_lacks_starts_from_the_weights(build_fake: Build) -> None:
    plain = build_fake()
    step(plain)
    averaged = build_fake("train.ema_decay=0.9")
    averaged.load_state_dict(saved(plain))
    assert_equal(
        dict(averaged.averages["painter"].module.state_dict()),
        dict(plain.method.networks["painter"].module.state_dict()),
    )


def test_rates_follow_the_roles(build_fake: Build) -> None:
    training = build_fake("optimizer.learning_rate=1e-3", "optimizer.discriminator_learning_rate=4e-3")
    groups = training.method.optimizers
    training.schedule.apply(groups, epoch=0)
    rates = {name: group.learning_rate for name, group in groups.items()}
    assert rates == {"group of painter": 1e-3, "group of critic": 4e-3}
    assert training.schedule.plateau is None
    assert build_fake("optimizer.decay=plateau").schedule.plateau == Plateau()


@pytest.mark.parametrize(
    ("settings", "steps"),
    [
        (["train.max_steps=7"], 7),
        (["train.max_steps=null", "train.epochs=2", "train.decay_epochs=1"], 15),
        (["train.max_steps=null", "train.epochs=2", "train.decay_epochs=0", "train.accumulation_steps=4"], 3),
        (["train.max_steps=null", "train.epochs=2", "train.decay_epochs=1", "train.steps_per_epoch=40"], 120),
        (["train.max_steps=100", "train.epochs=2", "train.decay_epochs=1", "train.steps_per_epoch=40"], 100),
    ],
    ids=str,
)
def test_last_step_follows_from_epochs_or_max_steps(build_fake: Build, settings: list[str], steps: int) -> None:
    assert build_fake(*settings).total_steps == steps
