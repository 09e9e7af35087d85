"""The parts of a run, and where a run starts from."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from configs.load import load_config
from tests.mapped_files import lists_mapped_files, mapped_bytes
from tests.runs import assert_equal
from tests.training.conftest import Build
from training import resume
from training.optimizer_group import Plateau, RunningMeans
from training.resume import (
    ResumeOptions,
    check_same_networks,
    continues_in,
    find_checkpoint,
    find_checkpoint_together,
    start,
)
from training.run import LoopState, Training
from utils.checkpoint import CheckpointError, save_checkpoint
from utils.checkpoint_folder import LoadedCheckpoint, checkpoint_path
from utils.distributed import World
from utils.errors import ConfigError


def test_a_checkpoint_that_only_one_machine_sees_is_an_error_with_its_remedy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    of_first = Path("/runs/tiny/checkpoint-00000004.pt")
    monkeypatch.setattr(World, "gather", lambda _, value: [of_first, value])
    with pytest.raises(CheckpointError, match=r"same folder run\.root"):
        find_checkpoint_together(tmp_path, "auto", World(1, 2, torch.device("cpu")))


def save(folder: Path, step: int) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    save_checkpoint(checkpoint_path(folder, step), {"step": step})
    return checkpoint_path(folder, step)


def test_a_run_resumes_from_its_latest_valid_checkpoint_or_from_what_is_named(tmp_path: Path) -> None:
    first, second = save(tmp_path, 1), save(tmp_path, 2)
    (damaged := save(tmp_path, 3)).write_bytes(b"half")
    found = find_checkpoint(tmp_path, "auto")
    assert found is not None
    assert (found.path, found.damaged) == (second, [damaged])
    assert find_checkpoint(tmp_path, "never") is None
    for named, expected in ((first, first), (tmp_path, second)):
        found = find_checkpoint(tmp_path / "other", str(named))
        assert found is not None
        assert found.path == expected
    assert find_checkpoint(tmp_path / "other", "auto") is None
    with pytest.raises(CheckpointError, match=r"^resume .*other: no checkpoint"):
        find_checkpoint(tmp_path, str(tmp_path / "other"))


def test_a_run_continues_its_folder_from_its_latest_checkpoint_alone(tmp_path: Path) -> None:
    first, second = (LoadedCheckpoint(save(tmp_path, step), {}) for step in (1, 2))
    assert continues_in(tmp_path, "auto", None)
    assert continues_in(tmp_path, str(second.path), second)
    other_spelling = tmp_path / ".." / tmp_path.name / second.path.name
    assert continues_in(tmp_path, str(other_spelling), LoadedCheckpoint(other_spelling, {}))
    assert not continues_in(tmp_path, str(first.path), first)
    assert not continues_in(tmp_path / "other", str(second.path), second)
    assert not continues_in(tmp_path, "never", None)


def state_of(training: Training) -> dict[str, Any]:
    save_checkpoint(
        path := checkpoint_path(training.folder, training.loop.step), training.state_dict([training.process_state()])
    )
    found = find_checkpoint(training.folder, str(path))
    assert found is not None
    return found.state


@lists_mapped_files
def test_resumed_run_does_not_map_its_checkpoint_file(build_fake: Build) -> None:
    training = build_fake("train.ema_decay=0.9")
    training.folder.mkdir(parents=True)
    for group in training.method.optimizers.values():
        group.backward(torch.stack([weight.sum() for weight in group.parameters]).sum())
        group.step("", RunningMeans())
    found = LoadedCheckpoint(checkpoint_path(training.folder, 0), state_of(training))
    assert mapped_bytes(found.path) is not None
    other = build_fake("train.ema_decay=0.9")
    start(other, found, ResumeOptions())
    assert mapped_bytes(found.path) is None
    for name, group in training.method.optimizers.items():
        assert len(group.moments) > 0
        torch.testing.assert_close(other.method.optimizers[name].state_dict(), group.state_dict(), rtol=0, atol=0)


@pytest.mark.parametrize(("settings", "is_same"), [([], True), (["data.validation_split=test"], False)])
def test_plateau_continues_only_with_the_same_samples(build_fake: Build, settings: list[str], is_same: bool) -> None:
    plateau_of = ["optimizer.decay=plateau"]
    training = build_fake(*plateau_of)
    training.folder.mkdir(parents=True)
    training.loop.step = 1
    assert training.schedule.plateau is not None
    training.schedule.plateau.load_state_dict({"factor": 0.2, "best": 0.5, "bad_epochs": 2})
    found = LoadedCheckpoint(checkpoint_path(training.folder, 1), state_of(training))
    other = build_fake(*plateau_of, *settings)
    start(other, found, ResumeOptions())
    expected = Plateau(factor=0.2, best=0.5, bad_epochs=2) if is_same else Plateau(factor=0.2)
    assert other.schedule.plateau == expected
    other.schedule.apply(other.method.optimizers, epoch=0)
    assert {group.learning_rate for group in other.method.optimizers.values()} == {0.2 * 2e-4}


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ("generator.base_channels=5", r"was trained with generator\.base_channels=64, now it is 5\. Set it back, or"),
        ("contrastive.channels=8", r"was trained with contrastive\.channels=.*, now it is 8\. Set it back, or"),
        ("data.source_channels=1 data.target_channels=1", "the networks' inputs differ"),
    ],
)
def test_other_networks_are_refused(setting: str, message: str) -> None:
    saved, wanted = (
        load_config(Path("configs/cut_256.yaml"), ["data.root=x", *more.split()]) for more in ("", setting)
    )
    with pytest.raises(CheckpointError, match=message):
        check_same_networks(saved, wanted, Path("x.pt"))


def load(monkeypatch: pytest.MonkeyPatch, weights: Mapping[str, nn.Module]) -> None:
    monkeypatch.setattr(resume, "load_from", lambda path, _, kind, direction: (path, weights[kind]))


def test_a_new_run_starts_from_the_weights_of_a_role_whatever_its_networks_are_called(
    build_fake: Build, monkeypatch: pytest.MonkeyPatch
) -> None:
    training = build_fake("init.generator=g.pt", "init.discriminator=d.pt")
    painter = training.method.networks["painter"].module
    given = nn.Conv2d(painter.state_dict()["weight"].shape[1], 3, 1)
    load(monkeypatch, {"generator": given, "discriminator": nn.Sequential(nn.Conv2d(3, 1, 1))})
    first, second = start(training, None, ResumeOptions())
    assert first == "init.generator  2 tensors loaded from g.pt into painter; unused: none; newly initialized: none"
    assert second.endswith("into critic; unused: none; newly initialized: 1.weight … 1.bias (2)")
    assert torch.equal(painter.state_dict()["weight"], given.weight)
    load(monkeypatch, {"generator": nn.Linear(2, 2)})
    with pytest.raises(ConfigError, match=r"init\.generator: no tensor in g\.pt"):
        start(build_fake("init.generator=g.pt"), None, ResumeOptions())


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
    plain, averaged = build_fake("run.seed=7"), build_fake("train.ema_decay=0.9")
    averaged.load_state_dict(plain.state_dict([plain.process_state()]))
    average = averaged.averages["painter"].module.state_dict()
    assert_equal(dict(average), dict(plain.method.networks["painter"].module.state_dict()))


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
