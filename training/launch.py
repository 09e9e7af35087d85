"""Starts a run: `train` for train.py and other programs, and `smoke` for the smoke test."""

import math
import shlex
from collections.abc import Callable, Mapping
from contextlib import ExitStack, closing, nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import torch

from configs import build
from configs.schema import Config
from training.cuda_graph import WARM_UP_STEPS
from training.loaded_run import Run
from training.loop import open_loop
from training.report.plan import describe
from training.report.sinks import Console, MetricsFile, Page, Report, Sink, TensorBoard
from training.resume import ResumeOptions, find_checkpoint_together, start
from training.run import Training, build_training, joined, run_folder
from training.run_folder import Session, check_space, prepare_folder, recorded, run_lock
from training.validation import BEST, read_best
from utils.distributed import World
from utils.errors import ConfigError, Interrupted
from utils.files import expanded
from utils.log import logger
from utils.run_figures import METRICS_FILE, last_validation
from utils.signals import GracefulStop

Callback = Callable[[int, dict[str, float]], object]
"""Function of the step and a dict of figures by name. If it returns True, the run ends. Other results are ignored."""


@dataclass
class Callbacks:
    """Functions of the caller, which the main process calls. Their random numbers do not change the training.

    on_report: Called every log.every_steps steps with the scalars of the report by tag.
    on_validation: Called every log.images_every_steps steps with the figures of the validation by name.
    error: Exception that a function raised, including SystemExit. The run then ends, and `train` raises the exception.
    """

    on_report: Callback | None = None
    on_validation: Callback | None = None
    error: BaseException | None = None

    def call(self, name: str, step: int, figures: Mapping[str, float]) -> str | None:
        """Call the function in the field `name`, if any. Return why the run must end, or None if it continues."""
        callback: Callback | None = getattr(self, name)
        if callback is None or self.error:
            return None
        own_gpus = [torch.cuda.current_device()] if torch.cuda.is_initialized() else []
        try:
            with torch.random.fork_rng(own_gpus):
                result = callback(step, dict(figures))
        except (Exception, SystemExit, KeyboardInterrupt) as error:  # noqa: BLE001 - `train` raises it after saving
            self.error = error
            return f"{name} raised {type(error).__name__}"
        return f"{name} returned True" if isinstance(result, bool | np.bool_) and result else None


def train(
    config: Config,
    *,
    on_report: Callback | None = None,
    on_validation: Callback | None = None,
    resume: str | Path = "auto",
    accepts_changed_data: bool = False,
) -> Run:
    """Train a run to its end, as train.py does. Print the progress, and write it to the run's folder.

    on_report, on_validation: Functions that the main process calls; see `Callbacks`. If a function returns True or
        raises an exception, all processes save the run and stop. The main process then raises the exception.
    resume, accepts_changed_data: See `ResumeOptions`.

    Raises:
        UserError, OSError: A setting, the data or a file cannot be used; this process already trains a run; or the run
            is finished, but settings that affect its result have changed.
        Interrupted: A signal stopped the run. Its state is saved. Only the main thread receives signals.
    """
    folder, options = run_folder(config), ResumeOptions(resume, accepts_changed_data)
    callbacks = Callbacks(on_report, on_validation)
    with joined(config) as world, GracefulStop() as stop, run_lock(folder) if world.is_main else nullcontext():
        run_to_end(config, world, options, stop, callbacks if world.is_main else Callbacks())
        logger.info("finished: %s", shlex.join(["python", "test.py", "--checkpoint", str(folder)]))
    best = read_best(folder) if config.checkpoint.best != "none" else {}  # best.pt may be from an earlier session
    metrics, of_best = (
        validation.figures if (validation := last_validation(folder, step)) else {}
        for step in (math.inf, best.get("step", -1))
    )
    return Run(folder, metrics, folder / BEST if best else None, of_best)


def run_to_end(config: Config, world: World, options: ResumeOptions, stop: GracefulStop, callbacks: Callbacks) -> None:
    """Build the run, restore it, and train to the end. Raise the exception of a callback."""
    folder = run_folder(config)
    with ExitStack() as stack:
        session = stack.enter_context(recorded(folder)) if world.is_main else None
        training = start_training(config, world, options, stop, session)
        if training is None:
            return
        sinks = sinks_of(training, session) if session else []
        report = stack.enter_context(closing(Report(sinks, training.loop.step + 1)))
        loop = stack.enter_context(open_loop(training, stop, report, callbacks.call))
        loop.run(stop)
        if callbacks.error:
            raise callbacks.error
        step, last_step = training.loop.step, training.total_steps
        if session and step < last_step:
            session.end_reason = loop.end_reason
            logger.info("ended early, at step %d of %d: %s", step, last_step, loop.end_reason)


def sinks_of(training: Training, session: Session) -> list[Sink]:
    """Return the sinks for the reports of a run, in the order of writing."""
    config, folder = training.config, training.folder
    assert training.validation, "the main process validates"
    classes = build.data_facts(config).legend(training.validation.evaluator.label_colors)
    can_draw = training.method.conditioning.source_is_drawn
    return [
        MetricsFile(folder / METRICS_FILE),
        TensorBoard(folder),
        session,
        Console(training.total_steps),
        Page(folder / "web", classes, can_draw=can_draw),
    ]


def start_training(
    config: Config, world: World, options: ResumeOptions, stop: GracefulStop, session: Session | None
) -> Training | None:
    """Build a run, restore it, and prepare its folder. Return None if the run is already finished.

    session: Writer of log.txt and state.json, or None in processes other than the main process.
    """
    build.prepare_device(config, world.device)
    folder = run_folder(config)
    found = find_checkpoint_together(folder, options.source, world)
    training = build_training(config, world, found)
    is_own = found is not None and found.path.resolve().parent == folder.resolve()
    initialized = start(training, found, options)
    step = training.loop.step
    lines = [*describe(training), *initialized]
    if is_own and step >= training.total_steps:
        if training.changes:
            remedy = "Set them back, raise train.epochs or train.max_steps, or start a new run with --resume never"
            raise ConfigError(f"{folder}: finished at step {step} with other settings ({training.changes}). {remedy}.")
        logger.info("finished at step %d; raise train.epochs or train.max_steps to continue", step)
        return None
    check_space(training)
    world.barrier()  # all processes have read the checkpoint, so its folder can be renamed now
    stop.stop_between_steps()  # signals now let the run save and stop
    if session:
        prepare_folder(training, found.damaged if found else [])
        session.begin(step)
    for line in lines:
        logger.info(line)
    return training


def smoke(config: Config) -> None:
    """Train some steps, validate, save a checkpoint, and resume for one more step, in a temporary folder.

    The folder is in run.root, which all machines of a run can read, or in the nearest parent folder that exists.
    """
    root = expanded(config.run.root, "run.root")
    place = next(folder for folder in (root, *root.parents) if folder.is_dir())
    log, data = replace(config.log, every_steps=1), replace(config.data, cache="none")
    with joined(config) as world, GracefulStop() as stop:
        n_steps = WARM_UP_STEPS + 2 if config.train.cuda_graph and world.device.type == "cuda" else 2
        with TemporaryDirectory(prefix=".smoke-", dir=place) if world.is_main else nullcontext("") as own:
            small = replace(config, run=replace(config.run, root=world.gather(own)[0]), log=log, data=data)
            for max_steps in (n_steps, n_steps + 1):
                steps = replace(config.train, max_steps=max_steps)
                try:
                    run_to_end(replace(small, train=steps), world, ResumeOptions(), stop, Callbacks())
                except Interrupted as error:
                    raise Interrupted(error.signal_number) from None  # name no step, because its checkpoint is deleted
            world.barrier()
        logger.info("smoke test passed: %d steps, validation, checkpoint, and a resumed step", n_steps)
