"""The training loop."""

import math
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

from training.averages import read_statistics_batches
from training.batches import BatchReader, open_batches
from training.cuda_graph import make_step
from training.optimizer_group import CHECKED_EVERY_STEPS, SkippedUpdates
from training.report.sinks import Progress, Report
from training.run import Training
from training.run_folder import CheckpointManager
from training.trained_network import freeze_parts
from utils.errors import Interrupted
from utils.signals import END, GracefulStop

CallUser = Callable[[str, int, Mapping[str, float]], str | None]
"""Calls a user's function, given its name, a step and scalars. Returns the reason to end the run, or None."""


@dataclass
class TrainingLoop:
    """Trains from the current step of `training` to its last step.

    end_reason: Why the run must end early, or None. If the main process sets it, all processes end at the same step.
    """

    training: Training
    batches: BatchReader
    report: Report
    checkpoints: CheckpointManager
    call_user: CallUser
    end_reason: str | None = None

    def run(self, stop: GracefulStop) -> None:
        """Train to the last step, or until `end_reason` is set or a signal asks to stop. Then save.

        Raise Interrupted after a signal, and UserError if too many updates in a row were not finite.
        """
        training, method, state = self.training, self.training.method, self.training.loop
        total_steps, skipped = training.total_steps, SkippedUpdates(method.optimizers)
        step = make_step(method)
        self.end_reason = self.end_reason or training.patience.end_reason
        while state.step < total_steps:
            epoch = state.epoch
            freeze_parts(method.networks, training.config.train, epoch)
            training.schedule.apply(method.optimizers, epoch)
            method.begin_step(state.step, training.planned_steps)
            batches = self.batches.read_step()
            # all processes must stop at the same step
            request = training.world.all_reduce_max(END if self.end_reason else stop.poll())
            if request == END:
                break
            if request:
                self.checkpoints.save_with_retries(state.step)
                training.world.barrier()  # wait for the checkpoint: torchrun kills all processes when one ends
                raise Interrupted(request, state.step or None)
            assert batches is not None, "the reader returns None only after a signal"
            step(batches)
            training.update_averages()
            state.step += 1
            state.batches += training.config.batches_per_step

            skipped.recent_names.append(" ".join(name for group in batches for batch in group for name in batch.names))
            self.report.each(lambda sink: sink.end_step())
            self._follow_up(skipped, is_last=state.step == total_steps, is_new_epoch=state.epoch > epoch)
        self.checkpoints.save_with_retries(state.step)  # save also if no step was left

    def _follow_up(self, skipped: SkippedUpdates, *, is_last: bool, is_new_epoch: bool) -> None:
        """After a step, check the updates, report, validate and save, each only if it is due."""
        training, settings, step = self.training, self.training.config.log, self.training.loop.step
        plateau, is_validated = training.schedule.plateau, step % settings.images_every_steps == 0
        if (is_last or step % CHECKED_EVERY_STEPS == 0) and (error := skipped.error(step)):
            self.checkpoints.save_with_retries(step)
            raise error
        is_reported = step % settings.every_steps == 0
        if is_last or is_reported:
            self._report(is_periodic=is_reported)
        is_plateau_due = plateau is not None and is_new_epoch
        if is_last or is_plateau_due or is_validated:
            figures = self._validate(is_periodic=is_validated)
            if plateau and is_plateau_due:
                plateau.update(training.world.gather(figures.get(training.method.progress, math.nan))[0])
        if not is_last:
            self.checkpoints.save_if_due(step)

    def _report(self, *, is_periodic: bool) -> None:
        """Report the mean losses since the last periodic report. Only this method copies losses to the host.

        is_periodic: Whether new means start after the report. If not, the means continue if the run is resumed.
        """
        training, state = self.training, self.training.loop
        means = training.method.means.flush(training.world, resets=is_periodic)
        steps_per_s, waiting_share = self.batches.lap(state.step)
        scalars = {**means}
        for name, group in training.method.optimizers.items():
            scalars[f"learning_rate/{name}"] = group.learning_rate
            scalars[f"amp/scale/{name}"] = group.scaler.get_scale()
            scalars[f"amp/skipped_steps/{name}"] = float(group.skipped_steps)
        scalars["progress/epoch"] = float(state.n_started_epochs)
        scalars["progress/images_per_s"] = steps_per_s * state.joint_batch_size * training.config.batches_per_step
        scalars["progress/waiting_for_data"] = waiting_share
        report = Progress(state.step, scalars, (training.total_steps - state.step) / steps_per_s)
        self.report.each(lambda sink: sink.progress(report))
        self.end_reason = self.call_user("on_report", state.step, scalars) or self.end_reason

    def _validate(self, *, is_periodic: bool) -> Mapping[str, float]:
        """Validate in the main process. The other processes do not take part.

        Return metric values by name, or an empty mapping in the other processes.
        is_periodic: Whether the validation counts for train.patience. The last validation of a run does not count.
        """
        training, step = self.training, self.training.loop.step
        training.prepare_averages()
        if training.validation is None:
            return {}
        validated = training.validation.run(step)
        self.report.each(lambda sink: sink.validation(step, validated))
        figures = validated.summary.figures
        if is_periodic:
            training.patience.update(figures)
        self.checkpoints.save_best(figures)
        reason = self.call_user("on_validation", step, figures) or training.patience.end_reason
        self.end_reason = reason or self.end_reason
        return figures


@contextmanager
def open_loop(training: Training, stop: GracefulStop, report: Report, call_user: CallUser) -> Iterator[TrainingLoop]:
    """Yield the loop of a run, which starts at the run's current step. Stop loading data on exit."""
    config = training.config
    training.statistics_batches = read_statistics_batches(
        training.averages, training.dataset(), config.train.batch_size, training.world
    )
    with open_batches(training, stop) as batches:
        yield TrainingLoop(training, batches, report, CheckpointManager(training), call_user)
