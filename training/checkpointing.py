"""When a run is saved, and what happens where saving fails."""

import time
from collections.abc import Mapping
from pathlib import Path

from training.best import BEST, archive_best
from training.run_state import RunState
from utils.checkpoint import save_checkpoint
from utils.checkpoint_folder import checkpoint_path, remove_old_checkpoints
from utils.distributed import World
from utils.log import logger

MAX_FAILED_SAVES = 3  # in a row
RETRY_S = 2.0  # between them at the end of a run


class CheckpointManager:
    """Writes the checkpoints of a run; all its processes call it at the same steps, the main one writes.

    every_steps: steps between two checkpoints. keep: number of newest ones that stay; 0 keeps all.
    """

    def __init__(self, folder: Path, world: World, run_state: RunState, *, every_steps: int, keep: int) -> None:
        self._folder = folder
        self._world = world
        self._run_state = run_state
        self._every_steps = every_steps
        self._keep = keep
        self._n_failures = 0
        self._next_try = 0
        self.saved_step = 0

    def save_if_due(self, step: int) -> None:
        """Save at each multiple of `every_steps`; where the disk fails, training continues and saving is tried again.

        Raises:
            OSError: that was the third failure in a row.
        """
        if step % self._every_steps and step != self._next_try:
            return
        next_try = step + max(1, self._every_steps // 10)
        what_next = f"training continues and tries again at step {next_try}"
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
        """Save best.pt where the figures are the best so far; the main process calls it alone, after a validation.

        The statistics of averages, which all processes estimate together, are up to date then.
        """
        best = self._run_state.best
        reached = best.improved_by(figures)
        if reached is None:
            return
        before, best.value = best.value, reached
        path = self._folder / BEST
        try:
            if before is None:
                archive_best(self._folder)
            save_checkpoint(path, self._run_state.state_dict([self._run_state.process_state()]))
        except OSError as error:
            best.value = before
            logger.warning("%s not saved: %s", BEST, error)
            return
        logger.info("best so far: %s %.4f, saved %s", best.figure, figures[best.figure], path)

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
            n_bytes = f"{self._run_state.n_bytes:,}"
            logger.warning("not saved: %s, a checkpoint takes about %s; %s", failure, n_bytes, what_next)
        return False

    def _save(self, step: int) -> None:
        self._run_state.estimate_statistics()
        processes = self._world.gather(self._run_state.process_state())
        if not self._world.is_main:
            return
        path = checkpoint_path(self._folder, step)
        save_checkpoint(path, self._run_state.state_dict(processes))
        logger.info("saved %s", path)
        try:
            remove_old_checkpoints(self._folder, self._keep)
        except OSError as error:
            logger.warning("an old checkpoint stays: %s", error)
