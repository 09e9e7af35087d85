"""When a run saves itself, and what becomes of it where that fails."""

import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from torch import Tensor

from configs.schema import CheckpointConfig
from training.best import BEST, score
from training.random_state import random_state
from utils.checkpoint import save_checkpoint
from utils.checkpoint_folder import checkpoint_path, remove_old_checkpoints
from utils.distributed import World
from utils.log import logger

MAX_FAILED_SAVES = 3  # in a row
RETRY_S = 2.0  # between them at the end of a run

TakeState = Callable[[list[dict[str, Tensor]]], dict[str, Any]]


class CheckpointManager:
    """Writes the checkpoints of a run; all its processes call it at the same steps, the main one writes.

    take_state: what a checkpoint holds, given the random state of each process; NotFiniteError where it is poisoned.
    n_bytes: what a checkpoint takes, about.
    best: the highest score of the validation samples so far, or None.
    """

    def __init__(
        self, folder: Path, world: World, settings: CheckpointConfig, take_state: TakeState, n_bytes: int
    ) -> None:
        self._folder = folder
        self._world = world
        self._settings = settings
        self._take_state = take_state
        self._n_bytes = n_bytes
        self._n_failures = 0
        self._next_try = 0
        self.saved_step = 0
        self.best: float | None = None

    def save_if_due(self, step: int) -> None:
        """Save every checkpoint.every_steps; where the disk fails, the run goes on, and tries again soon.

        Raises:
            OSError: that was the third failure in a row.
        """
        every_steps = self._settings.every_steps
        if step % every_steps and step != self._next_try:
            return
        next_try = step + max(1, every_steps // 10)
        what_next = f"training goes on and tries again at step {next_try}"
        if self._succeeds(step, is_last_try=self._n_failures == MAX_FAILED_SAVES - 1, what_next=what_next):
            self._n_failures = 0
        else:
            self._n_failures += 1
            self._next_try = next_try

    def save_with_retries(self, step: int) -> None:
        """Save before the run ends, unless that is done; where the disk fails, three times, some seconds apart.

        Raises:
            OSError: the third time failed too.
        """
        for attempt in range(1, MAX_FAILED_SAVES + 1):
            if step == self.saved_step:
                return
            if not self._succeeds(step, is_last_try=attempt == MAX_FAILED_SAVES, what_next="trying again"):
                time.sleep(RETRY_S)

    def save_best(self, figures: Mapping[str, float]) -> None:
        """Save, by the main process alone, where the validation samples were never translated better."""
        name = self._settings.best
        reached = score(figures, name)
        if reached is None or (self.best is not None and reached <= self.best):
            return
        before, self.best = self.best, reached
        try:
            save_checkpoint(self._folder / BEST, self._take_state([random_state(self._world.device)]))
        except OSError as error:
            self.best = before
            logger.warning("%s not saved: %s", BEST, error)
            return
        logger.info("best so far: %s %.4f, saved %s", name, figures[name], self._folder / BEST)

    def _succeeds(self, step: int, *, is_last_try: bool, what_next: str) -> bool:
        """Try to save; all processes learn whether it was possible."""
        failure = None
        try:
            self._save(step)
        except OSError as error:
            failure = error
        if not self._world.all_reduce_max(int(failure is not None)):
            self.saved_step = step
            return True
        if failure and is_last_try:
            raise failure
        if failure:
            logger.warning("not saved: %s, a checkpoint takes about %s; %s", failure, f"{self._n_bytes:,}", what_next)
        return False

    def _save(self, step: int) -> None:
        random_states = self._world.gather(random_state(self._world.device))
        if not self._world.is_main:
            return
        path = checkpoint_path(self._folder, step)
        save_checkpoint(path, self._take_state(random_states))
        logger.info("saved %s", path)
        try:
            remove_old_checkpoints(self._folder, self._settings.keep)
        except OSError as error:
            logger.warning("an old checkpoint stays: %s", error)
