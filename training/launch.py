"""Where a run begins: `train`, of train.py and of other programs, and the jobs that check or try everything first."""

import os
import shlex
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Literal

from configs import build
from configs.schema import Config
from configs.splits import HELD_BACK, has_split
from data.batch import DataError
from training.best import BEST, read_best
from training.callbacks import Callback, Callbacks
from training.cuda_graph import WARM_UP_STEPS
from training.disk_space import describe_shortage
from training.dry_run import dry_run
from training.loop import open_loop
from training.methods.method import uses_cuda_graph
from training.resume import ResumeOptions, continues_in, find_checkpoint_together, start
from training.run_folder import prepare_folder, run_folder, run_lock, write_settings
from training.run_record import RunRecord, recorded, recorded_losses, write_state
from training.run_state import Training
from training.setup import build_training
from training.start_report import describe
from utils.distributed import LONGEST_WAIT_S, World, joined_world
from utils.errors import ConfigError, Interrupted, UserError
from utils.log import log_to_console, logger
from utils.paths import expanded
from utils.run_figures import last_validation
from utils.signals import GracefulStop
from utils.yaml_file import shortened

Trial = Literal["dry-run", "smoke"]

_training = dict[int, object]()  # by process, the run that it trains: its threads share torch's random generators


@dataclass(frozen=True)
class Run:
    """A run that has ended.

    metrics: the figures of its last validation by name, those that are finite; none where it has made none.
    best: the checkpoint that was best on the validation samples; None where the folder has none, or none is kept.
    best_metrics: Finite figures of the validation that chose `best`, by name; empty without a best checkpoint.
    """

    folder: Path
    metrics: Mapping[str, float]
    best: Path | None
    best_metrics: Mapping[str, float] = field(default_factory=dict)


def train(
    config: Config,
    *,
    on_report: Callback | None = None,
    on_validation: Callback | None = None,
    resume: str | Path = "auto",
    accepts_changed_data: bool = False,
) -> Run:
    """Train a run to its end, as train.py does: progress is printed, and recorded in the run's folder.

    on_report, on_validation: called in the main process alone; see `Callbacks`. The run ends early, saved, in all its
        processes where one returns True, or raises an exception, which the main process then raises here.
    resume, accepts_changed_data: see `ResumeOptions`.

    Raises:
        UserError, OSError: a setting, the data or a file cannot be used, this process trains already, or the run is
            finished and would have another result with these settings.
        Interrupted: a signal stopped the run, which is saved; only in the main thread, which alone gets signals.
    """
    if not isinstance(config, Config):
        raise ConfigError(f"config: {shortened(config)} is no Config: configs.load.load_config(FILE) returns one")
    folder, options = run_folder(config), ResumeOptions(resume, accepts_changed_data)
    callbacks = Callbacks(on_report, on_validation)
    with joined(config) as world, GracefulStop() as stop, run_lock(folder) if world.is_main else nullcontext():
        run_to_end(config, world, options, stop, callbacks if world.is_main else Callbacks())
        logger.info("finished: %s", translation_command(config, folder))
    validation = last_validation(folder)
    metrics = validation.figures if validation else {}
    if config.checkpoint.best == "none" or not (best := read_best(folder)):  # best.pt may be from an earlier session
        return Run(folder, metrics, None)
    chosen = last_validation(folder, best["step"])
    return Run(folder, metrics, folder / BEST, chosen.figures if chosen else {})


def try_out(config: Config, job: Trial, resume: str = "auto", *, accepts_changed_data: bool = False) -> None:
    """Check everything and print the plan of a run, or train a few steps of it; nothing is left."""
    with joined(config) as world:
        if job == "dry-run":
            dry_run(config, world, ResumeOptions(resume, accepts_changed_data))
            return
        with GracefulStop() as stop:
            try:
                smoke(config, world, stop)
            except Interrupted as error:
                raise Interrupted(error.signal_number) from None  # without the step: what it saved is removed


@contextmanager
def joined(config: Config) -> Iterator[World]:
    """Join the processes of a run, of which the main one prints; refuse a second run within this process."""
    peer_timeout_s = min(3 * config.data.timeout_s or LONGEST_WAIT_S, LONGEST_WAIT_S)
    run = object()
    if _training.setdefault(os.getpid(), run) is not run:
        raise UserError(f"run {config.run.name}: this process trains another run: train in a process for each")
    try:
        with joined_world(config.run.device, peer_timeout_s) as world:
            log_to_console(world.is_main)
            yield world
    finally:
        _training.pop(os.getpid(), None)


def run_to_end(config: Config, world: World, options: ResumeOptions, stop: GracefulStop, callbacks: Callbacks) -> None:
    """Build the run, bring it to where it starts, and train to the end; raise what a callback has raised."""
    with recorded(run_folder(config)) if world.is_main else nullcontext() as record:
        if training := start_training(config, world, options, stop, record):
            with open_loop(training, stop, callbacks) as loop:
                loop.run(stop)
            if callbacks.error:
                raise callbacks.error
            step, last_step = training.loop.step, training.total_steps
            if record and step < last_step:
                record.end_reason = loop.end_reason
                logger.info("ended early, at step %d of %d: %s", step, last_step, loop.end_reason)


def start_training(
    config: Config, world: World, options: ResumeOptions, stop: GracefulStop, record: RunRecord | None
) -> Training | None:
    """Return a run where it starts, with its folder; None if it is finished already.

    record: Record of the main process. Other processes write nothing.

    Raises:
        ConfigError: The run is finished, and would have another result with these settings.
    """
    build.prepare_device(config, world.device)
    folder = run_folder(config)
    found = find_checkpoint_together(folder, options.source, world)
    training = build_training(config, world, found)
    is_own = found is not None and found.path.resolve().parent == folder.resolve()
    if record and found and is_own:
        record.losses = recorded_losses(found.state)
    initialized = start(training, found, options)
    state = training.loop
    if record:
        record.loop = state
    lines = [*describe(training), *initialized]
    if is_own and state.step >= training.total_steps:
        if training.changes:
            remedy = "Set them back, raise train.epochs or train.max_steps, or start a new run with --resume never"
            what = f"finished at step {state.step} with other settings ({training.changes})"
            raise ConfigError(f"{folder}: {what}. {remedy}.")
        logger.info("finished at step %d; raise train.epochs or train.max_steps to train on", state.step)
        return None
    continues = continues_in(folder, options.source, found)
    lines += describe_shortage(training, continues=continues)
    # all processes have read the checkpoint, and nothing can fail before the loop: another run may be archived now
    world.barrier()
    stop.stop_between_steps()  # once another run is archived, or this one starts from elsewhere, its state is saved
    if record:
        prepare_folder(folder, found.damaged if found else [], continues=continues)
        write_state(folder, "running", state.step)
        write_settings(folder, training.config)
        record.losses = None
        record.open()
    for line in lines:
        logger.info(line)
    return training


def translation_command(config: Config, folder: Path) -> str:
    """Return the command that translates with the run.

    Of its test split, or else val, or else what was held back from training, or else a folder to be named.
    """
    splits = [config.data.test_split, config.data.validation_split or "val", HELD_BACK]
    options = ["--input", "FOLDER", *(["--instances", "DIR"] if build.data_facts(config).reads_instances else [])]
    with suppress(DataError):  # the data set has moved since
        if found := next((split for split in splits if has_split(config, split)), None):
            options = ["--split", found] if found != config.data.test_split else []
    return shlex.join(["python", "test.py", "--checkpoint", str(folder), *options])


def smoke(config: Config, world: World, stop: GracefulStop) -> None:
    """Make some steps, a validation, a checkpoint, and a step from it, in a folder that is removed.

    The folder is in run.root, or above it where that does not exist: the only place that all machines of a run see.
    """
    n_steps = WARM_UP_STEPS + 2 if uses_cuda_graph(config, world) else 2
    root = expanded(config.run.root, "run.root")
    place = next(folder for folder in (root, *root.parents) if folder.is_dir())
    with TemporaryDirectory(prefix=".smoke-", dir=place) if world.is_main else nullcontext("") as own:
        small = replace(
            config,
            run=replace(config.run, root=world.gather(own)[0]),
            log=replace(config.log, every_steps=1),
            data=replace(config.data, cache="none"),
        )
        for max_steps in (n_steps, n_steps + 1):
            steps = replace(config.train, max_steps=max_steps)
            run_to_end(replace(small, train=steps), world, ResumeOptions(), stop, Callbacks())
        world.barrier()
    logger.info("smoke test passed: %d steps, validation, checkpoint, and a step from it", n_steps)
