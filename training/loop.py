"""The training loop."""

import math
from dataclasses import dataclass
from typing import NoReturn

from training.batches import BatchReader, sample_names
from training.graceful_stop import GracefulStop
from training.profiler import Profiler
from training.run_log import RunLog
from training.setup import Training
from training.skipped_updates import CHECKED_EVERY_STEPS, SkippedUpdates
from training.throughput import Throughput
from utils.errors import Interrupted


@dataclass(frozen=True)
class TrainingLoop:
    """Trains from the present state of `training` to its last step."""

    training: Training
    batches: BatchReader
    log: RunLog
    throughput: Throughput
    profiler: Profiler

    def run(self, stop: GracefulStop) -> None:
        """Train to the end, or until a signal asks to stop.

        Raises:
            Interrupted: a signal asked to stop; everything is saved.
            NotFiniteError: too many updates in a row were not finite; everything is saved.
        """
        training, method, state = self.training, self.training.method, self.training.run_state.loop
        total_steps, skipped = training.total_steps, SkippedUpdates(method.optimizers)
        self.throughput.start(state.step)
        while state.step < total_steps:
            epoch = state.epoch
            training.freezing.apply(epoch)
            training.schedule.apply(method.optimizers, epoch)
            batches = self.batches.read_step()
            # here no step is under way, and all processes come by in the same step: a signal can come at any moment
            if signal_number := training.world.all_reduce_max(stop.poll()):
                self._leave(signal_number)
            assert batches is not None, "waiting ends for a signal alone"

            method.step(batches)
            training.run_state.update_averages()
            state.step += 1
            state.batches += training.config.batches_per_step

            skipped.record(sample_names(batches))
            self.profiler.step()
            self.log.step_made()
            self._follow_up(skipped, is_last=state.step == total_steps, is_new_epoch=state.epoch > epoch)
        training.checkpoints.save_with_retries(state.step)  # where no step is left too: a run may begin finished

    def _follow_up(self, skipped: SkippedUpdates, *, is_last: bool, is_new_epoch: bool) -> None:
        """Check, report, validate and save, as far as each is due after a step."""
        training, settings, step = self.training, self.training.config.log, self.training.run_state.loop.step
        plateau, is_validated = training.schedule.plateau, step % settings.images_every_steps == 0
        if is_last or step % CHECKED_EVERY_STEPS == 0:
            self._check(skipped)
        if is_last or step % settings.every_steps == 0:
            self._report()
        is_plateau_due = plateau is not None and is_new_epoch
        if is_last or is_plateau_due or is_validated:
            progress = self._validate()
            if plateau and is_plateau_due:
                plateau.update(training.world.gather(progress)[0])
        if is_validated:  # never because a run ends: one that continues to more steps would differ from it
            self.log.report_scalars(step, training.method.adjust(step))
        if not is_last:
            training.checkpoints.save_if_due(step)

    def _check(self, skipped: SkippedUpdates) -> None:
        """Save and raise NotFiniteError where too many updates in a row were left out."""
        step = self.training.run_state.loop.step
        if error := skipped.error(step):
            self.training.checkpoints.save_with_retries(step)
            raise error

    def _report(self) -> None:
        """Report the means since the last report: the one transfer of losses from device to host."""
        training, method, state = self.training, self.training.method, self.training.run_state.loop
        means = method.means.flush(training.world)
        lap = self.throughput.lap(state.step)
        self.log.report(state, means, lap, method.optimizers, batches_per_step=training.config.batches_per_step)

    def _validate(self) -> float:
        """Translate the validation samples, by the main process alone, on the bare network, so that no other waits.

        Returns the figure by which progress is measured; NaN on the other processes.
        """
        training = self.training
        training.run_state.settle_averages()
        if training.validation is None:
            return math.nan
        figures = training.validation.run(self.log, training.run_state.loop.step)
        training.checkpoints.save_best(figures)
        return figures[training.method.progress]

    def _leave(self, signal_number: int) -> NoReturn:
        """Save what is not saved yet, together with the other processes, and stop."""
        step = self.training.run_state.loop.step
        self.training.checkpoints.save_with_retries(step)
        self.training.world.barrier()  # torchrun ends all once one has ended: the main process has to have saved
        raise Interrupted(signal_number, step or None)
