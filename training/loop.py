"""The training loop."""

import math
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field

from configs import build
from configs.load import changed_settings
from training.averages import read_statistics_batches
from training.batches import BatchReader, open_batches, sample_names
from training.callbacks import Callbacks
from training.checkpointing import CheckpointManager
from training.cuda_graph import make_step
from training.optimizer_group import CHECKED_EVERY_STEPS, SkippedUpdates
from training.profiler import profiler
from training.run_log import RunLog
from training.run_state import Training
from training.sample_page import SamplePage
from training.trained_network import freeze_parts
from utils.errors import Interrupted
from utils.signals import END, GracefulStop


@dataclass
class TrainingLoop:
    """Trains from the present state of `training` to its last step.

    end_step: called after each step, for a trace.
    callbacks: of the caller; other processes than the main one have none.
    end_reason: why the run shall end before its last step. The main process sets it, and all end together.
    """

    training: Training
    batches: BatchReader
    log: RunLog
    checkpoints: CheckpointManager
    end_step: Callable[[], None]
    callbacks: Callbacks = field(default_factory=Callbacks)
    end_reason: str | None = None

    def run(self, stop: GracefulStop) -> None:
        """Train to the end, to `end_reason`, or until a signal asks to stop.

        Raises:
            Interrupted: a signal asked to stop; everything is saved.
            NotFiniteError: too many updates in a row were not finite; everything is saved.
        """
        training, method, state = self.training, self.training.method, self.training.loop
        total_steps, skipped = training.total_steps, SkippedUpdates(method.optimizers)
        step = make_step(method, training.config, training.world)
        self.end_reason = self.end_reason or training.patience.end_reason
        while state.step < total_steps:
            epoch = state.epoch
            freeze_parts(method.networks, training.config.train, epoch)
            training.schedule.apply(method.optimizers, epoch)
            batches = self.batches.read_step()
            # between two steps, all processes learn together whether any of them has a reason to stop
            request = training.world.all_reduce_max(END if self.end_reason else stop.poll())
            if request == END:
                break
            if request:
                self.checkpoints.save_with_retries(state.step)
                training.world.barrier()  # torchrun ends all once one has ended: the main process has to have saved
                raise Interrupted(request, state.step or None)
            assert batches is not None, "waiting ends for a signal alone"
            step(batches)
            training.update_averages()
            state.step += 1
            state.batches += training.config.batches_per_step

            skipped.record(sample_names(batches))
            self.end_step()
            self.log.advance_bar()
            self._follow_up(skipped, is_last=state.step == total_steps, is_new_epoch=state.epoch > epoch)
        self.checkpoints.save_with_retries(state.step)  # also a run that began with no step left

    def _follow_up(self, skipped: SkippedUpdates, *, is_last: bool, is_new_epoch: bool) -> None:
        """Check, report, validate and save, as far as each is due after a step."""
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
            progress = self._validate(is_periodic=is_validated)
            if plateau and is_plateau_due:
                plateau.update(training.world.gather(progress)[0])
        if not is_last:
            self.checkpoints.save_if_due(step)

    def _report(self, *, is_periodic: bool) -> None:
        """Report the means since the last periodic report: the one transfer of losses from device to host.

        is_periodic: Otherwise the run ends, and the means stay in its checkpoint: it may continue later.
        """
        training, method, state = self.training, self.training.method, self.training.loop
        means = method.means.flush(training.world, resets=is_periodic)
        speed, waiting_share = self.batches.lap(state.step)
        n_batches = training.config.batches_per_step
        scalars = self.log.report(
            state, means, method.optimizers, steps_per_s=speed, waiting_share=waiting_share, batches_per_step=n_batches
        )
        self.end_reason = self.callbacks.report(state.step, scalars) or self.end_reason

    def _validate(self, *, is_periodic: bool) -> float:
        """Translate the validation samples, by the main process alone, on the bare network, so that no other waits.

        is_periodic: whether it counts for train.patience; one that is made because a run ends does not.
        Returns the figure by which progress is measured; NaN on the other processes.
        """
        training, step = self.training, self.training.loop.step
        training.prepare_averages()
        if training.validation is None:
            return math.nan
        figures = training.validation.run(self.log, step)
        patience = training.patience
        if is_periodic:
            patience.update(figures)
        self.checkpoints.save_best(figures)
        self.end_reason = self.callbacks.validated(step, figures) or patience.end_reason or self.end_reason
        return figures[training.method.progress]


@contextmanager
def open_loop(training: Training, stop: GracefulStop, callbacks: Callbacks) -> Iterator[TrainingLoop]:
    """Open the loop of a run that continues at its present state, with its data, its log and its profiler."""
    config, validation, is_main = training.config, training.validation, training.world.is_main
    first_step, page = training.loop.step + 1, None
    if validation:  # of the main process
        classes = build.data_facts(config).legend(validation.evaluator.label_colors)
        can_draw = training.method.conditioning.source_image_channels == 0
        page = SamplePage(training.folder / "web", first_step, classes, can_draw=can_draw)
    folder, gan_mode = training.folder if is_main else None, config.loss.gan_mode
    with closing(RunLog(folder, first_step, training.total_steps, gan_mode, page, changed_settings(config))) as log:
        training.statistics_batches = read_statistics_batches(
            training.averages, training.dataset(training.layout), config.train.batch_size, training.world
        )
        with (
            open_batches(training, stop) as batches,
            profiler(training.folder / "trace.json.gz", config.train.profile_steps if is_main else 0) as end_step,
        ):
            yield TrainingLoop(training, batches, log, CheckpointManager(training), end_step, callbacks)
