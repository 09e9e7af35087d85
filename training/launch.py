"""The jobs of train.py: train, check everything without training, or try everything briefly."""

import shlex
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Literal

from configs import build
from configs.downloads import downloads, without_downloads
from configs.load import config_to_yaml
from configs.schema import Config
from configs.splits import HELD_BACK, has_split
from data.batch import DataError
from training.disk_space import describe_shortage
from training.graceful_stop import GracefulStop
from training.log_file import Write, collected_messages, log_file
from training.plan import check_samples, describe
from training.resume import ResumeOptions, find_checkpoint_together, is_latest_of, resume_or_initialize
from training.run_folder import archive_run
from training.run_lock import run_lock
from training.session import open_loop
from training.setup import Training, build_training, run_folder
from training.state_json import RunRecord, recorded_state, write_state
from training.step_time import describe_time
from utils.atomic_file import path_in_errors
from utils.checkpoint_folder import LoadedCheckpoint, archive_damaged, sweep
from utils.distributed import World, joined_world
from utils.errors import ConfigError, Interrupted
from utils.log import log_to_console, logger
from utils.versions import versions

Job = Literal["train", "dry-run", "smoke"]


def launch(config: Config, options: ResumeOptions, job: Job = "train") -> None:
    """Join the processes of the run, and do the job."""
    with joined_world(config.run.device, config.run.peer_timeout_s) as world:
        log_to_console(world.is_main)
        if job == "dry-run":
            dry_run(config, world, options)
            return
        if job == "smoke":
            with GracefulStop() as stop:
                try:
                    smoke(config, world, stop)
                except Interrupted as error:
                    raise Interrupted(error.signal_number) from None  # what it saved is removed
            return
        folder = run_folder(config)
        with GracefulStop() as stop, run_lock(folder) if world.is_main else nullcontext():
            with recorded_state(folder) if world.is_main else nullcontext(RunRecord()) as record:
                train(config, world, options, stop, record)
            logger.info("finished: %s", translation_command(config, folder))


def train(
    config: Config, world: World, options: ResumeOptions, stop: GracefulStop, record: RunRecord | None = None
) -> None:
    """Build the run, find where it starts, and train to the end."""
    path = run_folder(config) / "log.txt" if world.is_main else None
    with collected_messages(versions(), path) as earlier:
        build.prepare_device(config, world.device)
        training = build_training(config, world, lambda: find_checkpoint_of(config, world, options))
        config = training.config
        found, initialized = resume_or_initialize(training, options)
        plan = [*describe(training), *initialized]
        state = training.run_state.loop
        if record:
            record.loop = state
        is_own = found is not None and found.path.resolve().parent == training.folder.resolve()
        if state.step >= training.total_steps and is_own:
            logger.info("finished at step %d; raise train.epochs or train.max_steps to train on", state.step)
            with log_file(path if training.folder.is_dir() else None, earlier):
                return
        continues = continues_in(training.folder, options.source, found)
        plan += describe_shortage(training, continues=continues) if world.is_main else []
        # every process has read the checkpoint, and nothing prevents the run any more, which may archive another
        world.barrier()
        stop.be_patient()  # the state of another run, or of one that is archived now, has to be saved here
        if world.is_main:
            prepare_folder(training.folder, found, continues=continues)
    with log_file(path, earlier) as write_to_file, _logged_end(training, write_to_file):
        for line in plan:
            logger.info(line)
        if world.is_main:
            write_state(training.folder, "running", state.step)
            write_settings(training.folder / "config.yaml", config)
        with open_loop(training, stop) as loop:
            loop.run(stop)


def translation_command(config: Config, folder: Path) -> str:
    """Return the command that translates with the run.

    Of its test split, or else val, or else what was held back from training, or else a folder to be named.
    """
    data = config.data
    other = data.validation_split or "val"
    options = [
        "--input",
        "FOLDER",
        *(["--instances", "DIR"] if build.reads_instances(config) else []),
    ]
    try:
        if build.has_split(data, data.test_split):
            options = []
        elif build.has_split(data, other):
            options = ["--split", other]
        elif has_split(config, HELD_BACK):
            options = ["--split", HELD_BACK]
    except DataError:  # the data set has moved since
        pass
    return shlex.join(["python", "test.py", "--checkpoint", str(folder), *options])


@contextmanager
def _logged_end(training: Training, write_to_file: Write) -> Iterator[None]:
    """Write to the log file how the run ended."""
    state = training.run_state.loop
    if not training.world.is_main:
        yield
        return
    try:
        yield
    except Interrupted as error:
        write_to_file(str(error))
        raise
    except BaseException as error:
        write_to_file(f"failed at step {state.step}: {type(error).__name__}: {error}")
        raise
    write_to_file(f"finished at step {state.step}")


def dry_run(config: Config, world: World, options: ResumeOptions) -> None:
    """Check everything and print what would be done, and how long it takes; nothing is written or downloaded."""
    build.prepare_device(config, world.device)
    missing = downloads(config)
    training = build_training(without_downloads(config), world, lambda: find_checkpoint_of(config, world, options))
    training = replace(training, config=replace(config, data=training.config.data))
    found, initialized = resume_or_initialize(training, options)
    continues = continues_in(training.folder, options.source, found)
    is_finished = training.run_state.loop.step >= training.total_steps
    shortage = describe_shortage(training, continues=continues) if world.is_main and not is_finished else []
    for line in [*describe(training), *initialized, *shortage, *(file.announcement for file in missing)]:
        logger.info(line)
    checked = check_samples(training)
    for line in checked.lines:
        logger.info(line)
    for line in describe_time(training, checked.batch, checked.loading_s):
        logger.info(line)


def smoke(config: Config, world: World, stop: GracefulStop) -> None:
    """Make two steps, a validation, a checkpoint, and a step from it, in a folder that is removed.

    The folder is in run.root, or above it where that does not exist: the only place that all machines of a run see.
    """
    n_steps = 2
    root = Path(config.run.root).expanduser()
    place = next(folder for folder in (root, *root.parents) if folder.is_dir())
    with TemporaryDirectory(prefix=".smoke-", dir=place) if world.is_main else nullcontext("") as own:
        small = replace(
            config,
            run=replace(config.run, root=world.gather(own)[0]),
            train=replace(config.train, max_steps=n_steps),
            log=replace(config.log, every_steps=1),
            data=replace(config.data, cache="none"),
        )
        train(small, world, ResumeOptions(), stop)
        train(replace(small, train=replace(small.train, max_steps=n_steps + 1)), world, ResumeOptions(), stop)
        world.barrier()
    logger.info("smoke test passed: %d steps, validation, checkpoint, and a step from it", n_steps)


def find_checkpoint_of(config: Config, world: World, options: ResumeOptions) -> LoadedCheckpoint | None:
    """Return the checkpoint that a run resumes from; None for a new run."""
    return find_checkpoint_together(run_folder(config), options.source, world)


def continues_in(folder: Path, source: str, found: LoadedCheckpoint | None) -> bool:
    """Return whether the run continues what its folder holds, and does not start from elsewhere."""
    return source == "auto" or (found is not None and is_latest_of(folder, found))


def prepare_folder(folder: Path, found: LoadedCheckpoint | None, *, continues: bool) -> None:
    """Make the run's folder, without what a killed run left; a run that is in the way of another start is archived."""
    try:
        archived = None if continues else archive_run(folder)
        folder.mkdir(parents=True, exist_ok=True)
        sweep(folder)
        archive_damaged(found.damaged if found and continues else [])
    except OSError as error:
        raise ConfigError(f"run.root, run.name: cannot make or write to {folder}: {error.strerror}") from error
    if archived:
        logger.info("the run that was in %s is kept in %s", folder, archived)


def write_settings(path: Path, config: Config) -> None:
    """Write the settings for people to read; a checkpoint holds them too, so a failing disk does not end the run."""
    try:
        with path_in_errors(path):
            path.write_text(config_to_yaml(config), encoding="utf-8")
    except OSError as error:
        logger.warning("not written: %s", error)
