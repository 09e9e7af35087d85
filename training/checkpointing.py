"""When a run is saved, and what happens if saving fails."""

import time
from collections.abc import Mapping

from training.best import BEST, archive_best
from training.run import Training
from utils.checkpoint import save_checkpoint
from utils.checkpoint_folder import checkpoint_path, remove_old_checkpoints
from utils.log import logger

MAX_FAILED_SAVES = 3
RETRY_S = 2.0  # time between tries at the end of a run


class CheckpointManager:
    """Writes the checkpoints of a run; all its processes call it at the same steps, the main one writes."""

    def __init__(self, training: Training) -> None:
        self._training = training
        self._n_failures = 0
        self._next_try = 0

    def save_if_due(self, step: int) -> None:
        """Save every checkpoint.every_steps. If the disk fails, training continues and saving is tried again.

        Raises:
            OSError: That was the third failure in a row.
        """
        every_steps = self._training.config.checkpoint.every_steps
        if step % every_steps and step != self._next_try:
            return
        next_try = step + max(1, every_steps // 10)
        what_next = f"training continues and tries again at step {next_try}"
        if self._succeeds(step, is_last_try=self._n_failures == MAX_FAILED_SAVES - 1, what_next=what_next):
            self._n_failures = 0
        else:
            self._n_failures += 1
            self._next_try = next_try

    def save_with_retries(self, step: int) -> None:
        """Save before the run ends, unless that is done. If the disk fails, try three times, some seconds apart.

        Raises:
            OSError: The third time failed too.
        """
        for attempt in range(1, MAX_FAILED_SAVES + 1):
            if step == self._training.saved_step:
                return
            if not self._succeeds(step, is_last_try=attempt == MAX_FAILED_SAVES, what_next="trying again"):
                time.sleep(RETRY_S)

    def save_best(self, figures: Mapping[str, float]) -> None:
        """Save best.pt if the figures are the best so far. Only the main process calls it, after a validation.

        The statistics of averages, which all processes estimate together, are up to date then.
        """
        training, best = self._training, self._training.best
        reached = best.improved_by(figures)
        if reached is None:
            return
        before, best.value = best.value, reached
        path = training.folder / BEST
        try:
            if before is None:
                archive_best(training.folder)
            save_checkpoint(path, training.state_dict([training.process_state()]))
        except OSError as error:
            best.value = before
            logger.warning("%s not saved: %s", BEST, error)
            return
        logger.info("best so far: %s %.4f, saved %s", best.figure, figures[best.figure], path)

    def _succeeds(self, step: int, *, is_last_try: bool, what_next: str) -> bool:
        """Try to save. All processes learn whether it was possible."""
        failure = None
        try:
            self._save(step)
        except OSError as error:
            failure = error
        if not self._training.world.all_reduce_max(int(failure is not None)):
            self._training.saved_step = step
            return True
        if failure and is_last_try:
            raise failure
        if failure:
            n_bytes = f"{self._training.n_bytes:,}"
            logger.warning("not saved: %s, a checkpoint takes about %s; %s", failure, n_bytes, what_next)
        return False

    def _save(self, step: int) -> None:
        training = self._training
        training.estimate_statistics()
        processes = training.world.gather(training.process_state())
        if not training.world.is_main:
            return
        path = checkpoint_path(training.folder, step)
        save_checkpoint(path, training.state_dict(processes))
        logger.info("saved %s", path)
        try:
            remove_old_checkpoints(training.folder, training.config.checkpoint.keep)
        except OSError as error:
            logger.warning("an old checkpoint stays: %s", error)
