"""The training loop."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import NoReturn

from torch.optim.swa_utils import AveragedModel

from training.augmentation_controller import AugmentationController
from training.average_statistics import AverageStatistics
from training.batches import BatchReader, StepBatches, sample_names
from training.checkpointing import CheckpointManager
from training.freezing import Freezing
from training.graceful_stop import GracefulStop
from training.lr_schedule import LearningRateSchedule
from training.profiler import Profiler
from training.run_log import RunLog
from training.run_state import LoopState
from training.skipped_updates import CHECKED_EVERY_STEPS, SkippedUpdates
from training.throughput import Throughput
from training.update import AdversarialUpdate
from training.validation import Validation
from utils.distributed import World
from utils.errors import Interrupted


@dataclass(frozen=True)
class TrainingLoop:
    """Trains from the present state to `total_steps`.

    step: makes one update of `update` from the batches of a step.
    average: of the generator's weights; None where the run keeps none.
    average_statistics: None where that has none of batch norm.
    validation: None on other processes than the main one, which validates alone.
    controller: of the augmentation; None where its probability is fixed.
    """

    world: World
    state: LoopState
    total_steps: int
    batches: BatchReader
    update: AdversarialUpdate
    step: Callable[[StepBatches], None]
    average: AveragedModel | None
    average_statistics: AverageStatistics | None
    schedule: LearningRateSchedule
    freezing: Freezing
    checkpoints: CheckpointManager
    validation: Validation | None
    controller: AugmentationController | None
    log: RunLog
    throughput: Throughput
    profiler: Profiler
    report_every_steps: int
    validate_every_steps: int
    batches_per_step: int

    def run(self, stop: GracefulStop) -> None:
        """Train to the end, or until a signal asks to stop.

        Raises:
            Interrupted: a signal asked to stop; everything is saved.
            NotFiniteError: too many updates in a row were not finite; everything is saved.
        """
        state, skipped = self.state, SkippedUpdates(self.update.networks)
        self.throughput.start(state.step)
        while state.step < self.total_steps:
            epoch = state.epoch
            self.freezing.apply(epoch)
            self.schedule.apply(self.update, epoch)
            batches = self.batches.read_step()
            # asked where no step is under way and each process is sure to come by: a signal can come at any moment
            if signal_number := self.world.all_reduce_max(stop.poll()):
                self._leave(signal_number)
            assert batches is not None, "waiting ends for a signal alone"

            self.step(batches)
            if self.average:
                self.average.update_parameters(self.update.generator.module)
            state.step += 1
            state.batches += self.batches_per_step

            skipped.record(sample_names(batches))
            self.profiler.step()
            self.log.step_made()
            self._follow_up(skipped, is_new_epoch=state.epoch > epoch)

    def _follow_up(self, skipped: SkippedUpdates, *, is_new_epoch: bool) -> None:
        """Check, report, validate and save, as far as each is due after a step."""
        step, is_last = self.state.step, self.state.step == self.total_steps
        if is_last or step % CHECKED_EVERY_STEPS == 0:
            self._check(skipped)
        if is_last or step % self.report_every_steps == 0:
            self._report()
        is_plateau_due = self.schedule.plateau is not None and is_new_epoch
        if is_last or is_plateau_due or step % self.validate_every_steps == 0:
            l1 = self._validate()
            if self.schedule.plateau and is_plateau_due:
                self.schedule.plateau.update(self.world.gather(l1)[0])
        if self.controller and step % self.validate_every_steps == 0:  # not at the end, which another run passes
            self.controller.adjust(step)
            self.log.report_scalars(step, self.controller.scalars)
        if is_last:
            self.checkpoints.save_with_retries(step)
        else:
            self.checkpoints.save_if_due(step)

    def _check(self, skipped: SkippedUpdates) -> None:
        """Save and raise NotFiniteError where too many updates in a row were left out."""
        if error := skipped.error(self.state.step):
            self.checkpoints.save_with_retries(self.state.step)
            raise error

    def _report(self) -> None:
        """Report the means since the last report: the one transfer of losses from device to host."""
        means = self.update.means.flush(self.world)
        lap = self.throughput.lap(self.state.step)
        self.log.report(self.state, means, lap, self.update.networks, batches_per_step=self.batches_per_step)

    def _validate(self) -> float:
        """Translate the validation samples, by the main process alone, on the bare network, so that no other waits.

        Returns their mean L1 in [0, 1]; NaN on the other processes.
        """
        if self.average_statistics:
            self.average_statistics.estimate(self.state.step)
        if self.validation is None:
            return math.nan
        figures = self.validation.run(self.log, self.state.step)
        self.checkpoints.save_best(figures)
        return figures["l1"]

    def _leave(self, signal_number: int) -> NoReturn:
        """Save what is not saved yet, together with the other processes, and stop."""
        self.checkpoints.save_with_retries(self.state.step)
        self.world.barrier()  # torchrun ends all once one has ended: the main process has to have saved
        raise Interrupted(signal_number, self.state.step or None)
