"""The data of a run: the samples that it is trained on and validated with, and how far it has come in them."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from configs.load import config_from_dict
from configs.schema import Config
from configs.splits import HELD_BACK, TRAIN, check_is_complete, open_split, validation_split
from data.held_back import groups_of, hold_back, possible_shares
from data.layout import Layout
from utils.checkpoint_folder import LoadedCheckpoint
from utils.errors import ConfigError
from utils.text import exact

_FORMERLY_MEASURED = ("source_range", "target_range", "target_files")


@dataclass(frozen=True)
class Splits:
    """The training samples, and where those of the validations come from.

    validation: name of their split: TRAIN where they are trained on too, HELD_BACK where train.validation_share keeps
        them out of training.
    held_back: those samples; None in the other cases.
    """

    train: Layout
    validation: str
    held_back: Layout | None = None

    def open_validation(self, config: Config) -> Layout:
        """Return the layout that the validation samples are read from.

        Raises:
            DataError: a folder of the validation split is missing, or a file has no partner.
        """
        if self.validation == TRAIN:
            return self.train
        return self.held_back or open_split(config, self.validation, needs_targets=True)


def open_splits(config: Config) -> Splits:
    """Return the splits of a run.

    Raises:
        DataError: a folder is missing or empty, or a file has no partner.
        ConfigError: train.validation_share holds back no sample, or all; or train.validation_group finds no group.
    """
    needs_labels, share = config.loss.outside_mask > 0, config.train.validation_share
    train = open_split(config, TRAIN, needs_targets=True, needs_labels=needs_labels)
    own, group = validation_split(config), config.train.validation_group
    if own or not share:
        return Splits(train, own or TRAIN)
    rest, held_back = hold_back(train, share, group)
    if not len(rest) or not len(held_back):
        least, most = possible_shares(train, group)
        remedy = f"set it to {exact(least)} or more, up to {exact(most)}"
        if least > most:
            remedy = "no share divides so few: set it to 0, or put images into the folders of a split val"
        which, drawn = "no" if share < least else "every", "sample" if group is None else "group"
        numbers = [len(side if group is None else set(groups_of(side.names, group))) for side in train.sides]
        drawn += f" of {' or of '.join(map(str, numbers))}"
        raise ConfigError(f"train.validation_share is {exact(share)}, which holds back {which} {drawn}: {remedy}")
    return Splits(rest, HELD_BACK, held_back)


def open_data(config: Config, found: LoadedCheckpoint | None) -> tuple[Config, Splits]:
    """Return the splits of a run, and its configuration.

    found: The checkpoint that the run resumes from. Checkpoints of earlier versions hold ranges of values that the
        program measured; the run keeps them.

    Raises:
        DataError, ConfigError: see `open_splits`; or the settings name no range of images that need one.
    """
    if found:
        saved, names = config_from_dict(found.state.get("config"), str(found.path)).data, _FORMERLY_MEASURED
        kept = {name: getattr(saved, name) for name in names if getattr(config.data, name) is None}
        config = replace(config, data=replace(config.data, **kept))
    splits = open_splits(config)
    if not found:
        check_is_complete(config, splits.train)
    return config, splits


@dataclass
class LoopState:
    """How far a run has come.

    batches_per_epoch: Joint batches (one batch of each process) in a pass through the data.
    joint_batch_size: Number of samples in a joint batch.
    step: Number of updates made.
    batches: Number of joint batches taken from the data.
    steps_per_epoch: Number of steps that count as an epoch of the schedule. None: a pass through the data.
    """

    batches_per_epoch: int
    joint_batch_size: int
    step: int = 0
    batches: int = 0
    steps_per_epoch: int | None = None

    @property
    def epoch(self) -> int:
        """The schedule's epoch of the next step, from 0."""
        position, length = self._position
        return position // length

    @property
    def n_started_epochs(self) -> int:
        """Number of the schedule's epochs that have begun: the epoch of the latest step, from 1."""
        position, length = self._position
        return -(-position // length)

    @property
    def _position(self) -> tuple[int, int]:
        """The position in the schedule, and the length of an epoch: both in steps, or both in joint batches."""
        return (self.step, self.steps_per_epoch) if self.steps_per_epoch else (self.batches, self.batches_per_epoch)

    def last_step(self, n_epochs: int, batches_per_step: int) -> int:
        """Return the step that ends epoch number `n_epochs` of the schedule."""
        if self.steps_per_epoch:
            return n_epochs * self.steps_per_epoch
        batches_to_go = max(n_epochs * self.batches_per_epoch - self.batches, 0)
        return self.step + math.ceil(batches_to_go / batches_per_step)

    def state_dict(self) -> dict[str, int]:
        """Return the position as a checkpoint holds it: independent of batch size and number of processes."""
        epoch, batches = divmod(self.batches, self.batches_per_epoch)
        return {"step": self.step, "epoch": epoch, "samples_into_epoch": batches * self.joint_batch_size}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Load what `state_dict` returned, with whatever batch size; TypeError where a value is no whole number."""
        if not all(isinstance(state[key], int) for key in self.state_dict()):
            raise TypeError("its step or its place in the data is no number")
        # not more than an epoch holds, should the data set have become smaller
        batches_into_epoch = min(state["samples_into_epoch"] // self.joint_batch_size, self.batches_per_epoch)
        self.step = state["step"]
        self.batches = state["epoch"] * self.batches_per_epoch + batches_into_epoch
