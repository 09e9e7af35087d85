"""How a run begins: the place to go on from, initial weights, checks, the plan in words, its folder."""

from contextlib import ExitStack, nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Literal

from configs import build
from configs.load import config_to_yaml
from configs.schema import Config
from configs.unused import unused_settings
from data.batch import Batch, Sample
from data.loader import TrainingDataset
from data.sampler import SampleKey
from inference.load import NetworkKind, find_checkpoint_file, load_network
from models.weight_transfer import transfer_weights
from training.cuda_graph import WARM_UP_STEPS
from training.graceful_stop import GracefulStop
from training.loop import Training, run_folder
from training.model_summary import table, watched_layers
from training.run_folder import archive_run, log_file
from training.run_lock import run_lock
from training.trainable import TrainableNetwork
from utils.checkpoint import CheckpointError, load_checkpoint
from utils.checkpoint_folder import LoadedCheckpoint, archive_damaged, latest_valid, list_checkpoints, sweep
from utils.distributed import World, joined_world
from utils.errors import ConfigError
from utils.log import log_to_console, logger

Task = Literal["train", "dry-run", "smoke"]

CHECKED_SAMPLES = 100  # by --dry-run
VGG_MIN_SIDE = 16  # pixels, which four poolings make one


@dataclass(frozen=True)
class ResumeOptions:
    """Where a run begins.

    resume: "auto" goes on from the run's newest checkpoint, "never" starts anew, a path from there.
    accepts_changed_data: go on, from the next epoch, with a data set that has changed.
    """

    resume: str = "auto"
    accepts_changed_data: bool = False


def find_checkpoint(run_folder: Path, resume: str) -> LoadedCheckpoint | None:
    """The checkpoint to go on from: the run's newest whole one ("auto"), none ("never"), a file, or a folder's newest.

    Raises:
        CheckpointError: there is none in the place of another than the run, or none is whole.
    """
    if resume == "never":
        return None
    folder = run_folder if resume == "auto" else Path(resume)
    if folder.is_file():
        return LoadedCheckpoint(folder, load_checkpoint(folder))
    found = latest_valid(folder, logger.warning)
    if found is None and resume != "auto":
        raise CheckpointError(f"--resume {resume}: neither a checkpoint nor a run folder that holds one")
    return found


def find_checkpoint_together(run_folder: Path, resume: str, world: World) -> LoadedCheckpoint | None:
    """`find_checkpoint` of the main process, on each: they must not go on from different ones."""
    found = find_checkpoint(run_folder, resume) if world.is_main else None
    path = world.gather(found.path if found else None)[0]
    if world.is_main or path is None:
        return found
    return LoadedCheckpoint(path, load_checkpoint(path))


def check_samples(training: Training) -> list[str]:
    """Load up to CHECKED_SAMPLES training samples from all over the data set, and judge a batch of them.

    Returns what was seen: the networks layer by layer, and what they take.

    Raises:
        ConfigError, DataError: a sample cannot be used, or is too small for the discriminator.
    """
    dataset = training_dataset(training)
    n_samples, batch_size = len(training.layout), training.config.train.batch_size
    indices = range(0, n_samples, -(-n_samples // max(CHECKED_SAMPLES, batch_size)))
    samples: list[Sample] = []
    for index in indices:
        loaded = dataset[SampleKey(epoch=0, index=index)]
        if isinstance(loaded, Exception):
            raise loaded
        check_size(training.config, loaded)
        samples += [loaded] if len(samples) < batch_size else []
    networks, batch = training.game.players, Batch.of(samples).to(training.world.device)
    with ExitStack() as stack:
        layers = {name: stack.enter_context(watched_layers(player.computing)) for name, player in networks.items()}
        n_kept_bytes = training.game.activation_bytes(batch)
    tables = [line for name, seen in layers.items() for line in table(name, seen)]
    weights = training.game.n_bytes // 3  # and as much for each of Adam's moments
    gradients = sum(player.n_gradient_bytes for player in networks.values())
    checkpoint_bytes = training.game.n_bytes + (weights if training.average else 0)
    return [
        *tables,
        f"memory         about {_gib(3 * weights + gradients + n_kept_bytes)}: {_gib(weights)} of weights, twice that "
        f"of moments, {_gib(gradients)} of gradients, {_gib(n_kept_bytes)} kept for the backward passes of a batch",
        f"checkpoint     about {_gib(checkpoint_bytes)}, {training.config.checkpoint.keep or 'all'} of them are kept",
        f"checked        {len(indices)} of {n_samples} training samples, networks and losses on a batch of them: good",
    ]


def _gib(n_bytes: int) -> str:
    return f"{n_bytes / 2**30:.2f} GiB" if n_bytes >= 2**30 / 10 else f"{n_bytes / 2**20:.1f} MiB"


def training_dataset(training: Training) -> TrainingDataset:
    """The samples as they are trained on, but for a cache."""
    data = training.config.data
    return TrainingDataset(training.layout, training.preprocessing, training.config.run.seed, data.on_bad_sample)


def check_size(config: Config, sample: Sample) -> None:
    """Raise ConfigError where nothing would be left of a sample at the lowest resolution that judges it."""
    side, discriminator = min(sample.source.shape[-2:]), config.discriminator
    if discriminator.name == "multiscale_patch" and side <= 2 ** (discriminator.n_scales - 1):
        raise ConfigError(
            f"discriminator.n_scales is {discriminator.n_scales}, but the shorter side of {sample.name} has {side} "
            f"pixels, enough for {(side - 1).bit_length()} scales: lower it"
        )
    if config.loss.vgg and side < VGG_MIN_SIDE:
        raise ConfigError(
            f"loss.vgg is {config.loss.vgg:g}, but the shorter side of {sample.name} has {side} pixels, and VGG19 "
            f"needs {VGG_MIN_SIDE}: use larger images or loss.vgg=0"
        )


def describe(training: Training) -> list[str]:
    """The plan in words: networks, data, steps."""
    config, world = training.config, training.world
    sample = training_dataset(training)[SampleKey(epoch=0, index=0)]
    if isinstance(sample, Exception):
        raise sample
    check_size(config, sample)
    counts = [f"{name:<14} {_count_parameters(player)}" for name, player in training.game.players.items()]
    precision = str(training.game.precision.compute_dtype).removeprefix("torch.")
    unused = unused_settings(config)
    return [
        f"run            {training.folder}",
        *counts,
        f"data           {len(training.layout)} samples, the first is {sample.name} "
        f"{sample.source.shape[-1]}x{sample.source.shape[-2]}",
        *describe_cache(training, training.layout.names.index(sample.name)),
        f"plan           step {training.position.step} to {training.total_steps}, each of {training.joint_batch_size} "
        f"x {config.batches_per_step} samples; {training.batches_per_epoch} batches an epoch, "
        f"{config.total_epochs} epochs",
        f"device         {world.device}, {world.size} process{'es' if world.size > 1 else ''}, {precision}",
        *(["slow           float16 on a CPU: amp.dtype=auto"] if training.game.precision.is_slow else []),
        *([f"without effect {', '.join(unused)}"] if unused else []),
    ]


def describe_cache(training: Training, index: int) -> list[str]:
    """How much of the data set will be kept, judged by sample `index`; nothing where there is no cache."""
    data = training.config.data
    cached = build.build_cached_layout(training.config, training.layout, training.folder)
    if cached is None:
        return []
    outlook = cached.estimate(index)
    if outlook.n_fitting >= outlook.n_samples:
        return [f"cache          {data.cache}, about {_gib(outlook.n_bytes)}"]
    way_out = f"raise data.cache_gib ({data.cache_gib:g} GiB)"
    if outlook.lacks_space:
        way_out = f"too little is free in {build.cache_folder(training.config, training.folder)}"
    return [f"cache          {data.cache}, about {outlook.n_fitting} of {outlook.n_samples} samples fit: {way_out}"]


def _count_parameters(player: TrainableNetwork) -> str:
    n_parameters = sum(parameter.numel() for parameter in player.module.parameters())
    n_trained = sum(parameter.numel() for parameter in player.parameters)
    return f"{n_parameters:>12,} parameters{f', {n_trained:,} of them trained' if n_trained < n_parameters else ''}"


def initialize_networks(training: Training) -> list[str]:
    """Start the networks of a new run from the weights that `init` names; returns what was taken, in words."""
    report = []
    init, game = training.config.init, training.game
    files: list[tuple[NetworkKind, str | None, TrainableNetwork]] = [
        ("generator", init.generator, game.generator),
        ("encoder", init.encoder, game.generator),
        ("discriminator", init.discriminator, game.discriminator),
    ]
    for key, setting, player in files:
        if setting is None:
            continue
        file = find_checkpoint_file(Path(setting).expanduser())
        transfer = transfer_weights(load_network(file, key), player.module)
        player.load_weights(player.module.state_dict())
        if not transfer.loaded:
            raise ConfigError(
                f"init.{key}: nothing of {file} has a place in this {key}; it holds {transfer.left[0]}, …"
            )
        counts = f"{len(transfer.loaded)} tensors loaded from {file}"
        report.append(f"init.{key}  {counts}; left: {_some(transfer.left)}; new: {_some(transfer.new)}")
    return report


def _some(names: list[str]) -> str:
    if not names:
        return "none"
    return names[0] if len(names) == 1 else f"{names[0]} … {names[-1]} ({len(names)})"


def go_on_or_start(training: Training, beginning: ResumeOptions) -> tuple[LoadedCheckpoint | None, list[str]]:
    """Bring the networks to where the run begins; returns the checkpoint, if there is one, and the plan in words."""
    found = find_checkpoint_together(training.folder, beginning.resume, training.world)
    if found:
        training.restore(found, accepts_changed_data=beginning.accepts_changed_data)
        return found, describe(training)
    started_from = initialize_networks(training)
    return None, [*describe(training), *started_from]


def dry_run(training: Training, beginning: ResumeOptions) -> None:
    """Check everything and say what would be done."""
    _, plan = go_on_or_start(training, beginning)
    for line in [*plan, *check_samples(training)]:
        logger.info(line)


def prepare_folder(folder: Path, resume: str, found: LoadedCheckpoint | None) -> None:
    """Make the run's folder, without what a killed run left; one that is in the way of another start is set aside."""
    newest = [path.resolve() for path in list_checkpoints(folder)[-1:]]
    goes_on = resume == "auto" or (found is not None and found.path.resolve() in newest)
    try:
        aside = None if goes_on else archive_run(folder)
        folder.mkdir(parents=True, exist_ok=True)
        sweep(folder)
        archive_damaged(found.damaged if found and goes_on else [])
    except OSError as error:
        raise ConfigError(f"run.root, run.name: cannot make or write to {folder}: {error.strerror}") from error
    if aside:
        logger.info("the run that was in %s is kept in %s", folder, aside)


def note_settings(path: Path, config: Config) -> None:
    """Write the settings for people to read; a checkpoint holds them too, so a disk that fails does not end the run."""
    try:
        path.write_text(config_to_yaml(config), encoding="utf-8")
    except OSError as error:
        logger.warning("not written: %s", error)


def train(config: Config, world: World, beginning: ResumeOptions, stop: GracefulStop) -> None:
    """Build, find the place to go on from, and run to the end."""
    build.prepare_device(config, world.device)
    training = Training(config, world)
    found, plan = go_on_or_start(training, beginning)
    if training.position.step >= training.total_steps:
        logger.info("finished at step %d; raise train.epochs or train.max_steps to go on", training.position.step)
        return
    world.barrier()  # every process has read the checkpoint, and nothing stands against the run, which may move another
    if world.is_main:
        prepare_folder(training.folder, beginning.resume, found)
    with log_file(training.folder / "log.txt" if world.is_main else None):
        for line in plan:
            logger.info(line)
        if world.is_main:
            note_settings(training.folder / "config.yaml", config)
        training.run(stop)


def smoke(config: Config, world: World, stop: GracefulStop) -> None:
    """Two steps, a validation, a checkpoint, and going on from it, in a folder that is removed.

    With train.cuda_graph as many more as come before the graph.
    """
    n_steps = WARM_UP_STEPS + 2 if config.train.cuda_graph else 2
    with TemporaryDirectory() if world.is_main else nullcontext("") as own:
        root = world.gather(own)[0]
        small = replace(
            config,
            run=replace(config.run, root=root),
            train=replace(config.train, max_steps=n_steps),
            log=replace(config.log, every_steps=1),
            data=replace(config.data, cache="none"),
        )
        train(small, world, ResumeOptions(), stop)
        train(replace(small, train=replace(small.train, max_steps=n_steps + 1)), world, ResumeOptions(), stop)
        world.barrier()
    logger.info("smoke test passed: %d steps, validation, checkpoint, and a step from it", n_steps)


def launch(config: Config, beginning: ResumeOptions, task: Task = "train") -> None:
    """Join the processes of the run, and do the task: train, tell what would be done, or try everything shortly."""
    with joined_world(config.run.device, config.run.peer_timeout_s) as world:
        log_to_console(world.is_main)
        if task == "dry-run":
            dry_run(Training(config, world), beginning)
            return
        if task == "smoke":
            with GracefulStop() as stop:
                smoke(config, world, stop)
            return
        folder = run_folder(config)
        with (
            GracefulStop() as stop,
            run_lock(folder) if world.is_main else nullcontext(),
        ):
            train(config, world, beginning, stop)
            logger.info("finished: python test.py --checkpoint %s", folder)
