"""Where a run starts: from a checkpoint, or with initial weights."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, fields
from functools import partial
from pathlib import Path
from typing import Any

from torch import OutOfMemoryError

from configs import build
from configs.load import config_differences, config_from_dict
from configs.schema import Config, TrainConfig
from configs.splits import validation_split
from data.fingerprint import difference
from inference.load import load_from, load_network
from inference.original_weights import encoder_file, original_direction
from losses import registered_weights
from models.initialization import transfer_weights
from models.originals.format import FileRole
from training.best import can_be_compared, has_scores_of, read_best
from training.run_state import Training
from training.trained_network import TrainedNetwork, freeze_parts
from utils.checkpoint import CheckpointError, check_training_state, checkpoints_beside, load_checkpoint
from utils.checkpoint_folder import LoadedCheckpoint, latest_valid, list_checkpoints
from utils.distributed import World
from utils.errors import ConfigError
from utils.log import logger
from utils.paths import expanded
from utils.text import exact
from utils.yaml_file import shortened

_OF_NETWORKS = (
    "method.",
    "generator.",
    "discriminator.",
    "features.",
    "style.",
    "contrastive.channels",
    "contrastive.taps",
    "data.source_range",
    "data.target_range",
)
_NOT_OF_RESULTS = (
    *("run.name", "run.root", "run.device", "log.", "checkpoint.every_steps", "checkpoint.keep"),
    *("data.root", "data.workers", "data.cache", "data.timeout_s", "data.test_split"),
    *("train.activation_checkpointing", "train.compile", "train.cuda_graph", "train.channels_last"),
    *("train.cudnn_benchmark", "train.deterministic", "train.profile_steps"),
)
"""Settings of places, speed and reports. A finished run may be started again with others."""

_NEW_RUN = "start a new run with --resume never"
_NEXT_EPOCH = "resume from the next epoch with --accept-changed-data"


@dataclass(frozen=True)
class ResumeOptions:
    """Where a run starts.

    source: "auto" resumes from the run's latest checkpoint, "never" starts a new run, a path resumes from there.
    accepts_changed_data: resume, from the next epoch, with a data set that has changed.
    """

    source: str | Path = "auto"
    accepts_changed_data: bool = False

    def __post_init__(self) -> None:
        if not isinstance(self.source, str | Path):
            raise ConfigError(f"resume: {shortened(self.source)} is no path: give one, 'auto' or 'never'")


def start(training: Training, found: LoadedCheckpoint | None, options: ResumeOptions) -> list[str]:
    """Bring a run to where it starts: to a checkpoint, or with new networks to the weights that `init` names.

    Returns lines that list those weights.
    """
    if found is None:
        return initialize_networks(training)
    restore(training, found, accepts_changed_data=options.accepts_changed_data)
    found.state.clear()  # nothing needs the tensors in its file any more, which the run may rename or delete
    return []


def find_checkpoint_together(run_folder: Path, source: str | Path, world: World) -> LoadedCheckpoint | None:
    """Return what `find_checkpoint` of the main process does, on each: they must not resume from different ones."""
    found = find_checkpoint(run_folder, source) if world.is_main else None
    path = world.gather(found.path if found else None)[0]
    if world.is_main or path is None:
        return found
    if not path.is_file():
        raise CheckpointError(f"{path}: not there on this machine: run.root has to be the same folder on all of them")
    return LoadedCheckpoint(path, load_checkpoint(path))


def find_checkpoint(run_folder: Path, source: str | Path) -> LoadedCheckpoint | None:
    """Return the checkpoint that a run resumes from: a file, a folder's latest valid one, or none ("never").

    Raises:
        CheckpointError: a place other than the run has none, or none is valid.
    """
    if source == "never":
        return None
    folder = run_folder if source == "auto" else Path(source)
    if folder.is_file():
        return LoadedCheckpoint(folder, load_checkpoint(folder))
    found = latest_valid(folder)
    if found is None and source != "auto":
        raise CheckpointError(f"resume {source}: no checkpoint and no run that has one{checkpoints_beside(folder)}")
    return found


def restore(training: Training, found: LoadedCheckpoint, *, accepts_changed_data: bool = False) -> None:
    """Load a checkpoint, whatever the batch size and the number of processes that wrote it.

    accepts_changed_data: where the data set has changed, resume at the beginning of the next epoch.

    Raises:
        CheckpointError: the file cannot be used, or its networks or data set differ.
    """
    path, state = found.path, found.state
    continues = training.world.gather(is_latest_of(training.folder, found))[0]  # the main process knows the damaged
    check_training_state(state, path, needed_keys=["config"])
    try:
        changes = check_same_networks(config_from_dict(state["config"], str(path)), training.config, path)
        check_training_state(state, path, training.needed_keys)  # of the same networks: otherwise it lacks them
        training.load_state_dict(state)
        _restore_scores(training, state, continues=continues)
        has_changed = _has_changed_data(training, found, is_accepted=accepts_changed_data)
    except (CheckpointError, OutOfMemoryError):
        raise
    except (ConfigError, RuntimeError, KeyError, ValueError, TypeError, AttributeError, IndexError) as error:
        raise CheckpointError(
            f"{path}: does not fit, or is ill-formed: {' '.join(str(error).split())}; use another checkpoint"
        ) from error
    changes = {key: change for key, change in changes.items() if not key.startswith(_NOT_OF_RESULTS)}
    if (before := state.get("registered_losses", {})) != (now := registered_weights()):
        logger.warning("registered losses have changed: %s -> %s", before or "none", now or "none")
        changes["registered losses"] = before or "none", now or "none"
    training.changes = _listed(changes)
    if continues:
        training.saved_step = training.loop.step
    if has_changed and state["samples_into_epoch"]:
        training.loop.batches = (state["epoch"] + 1) * training.loop.batches_per_epoch
    freeze_parts(training.method.networks, training.config.train, training.loop.epoch)
    logger.info("resuming from %s", path)


def check_same_networks(saved: Config, wanted: Config, path: Path) -> dict[str, tuple[object, object]]:
    """Return the settings that have changed since a checkpoint, and log them.

    Raises:
        CheckpointError: The networks have another form.
    """
    changes = config_differences(saved, wanted)
    for key, (old, new) in changes.items():
        if key.startswith(_OF_NETWORKS):
            raise CheckpointError(
                f"{path} was trained with {key}={old}, now it is {new}: set it back, or {_NEW_RUN} or another run.name"
            )
    old_condition, new_condition = (build.data_facts(config).conditioning for config in (saved, wanted))
    if old_condition != new_condition:
        names = [part.name for part in fields(old_condition) if part.compare]
        pairs = {name: (getattr(old_condition, name), getattr(new_condition, name)) for name in names}
        changed = ", ".join(f"{name} {old} -> {new}" for name, (old, new) in pairs.items() if old != new)
        raise CheckpointError(f"{path}: networks take other inputs ({changed}): set data.* back, or {_NEW_RUN}")
    if changes:
        logger.info("changed since: %s", _listed(changes))
    return changes


def _listed(changes: Mapping[str, tuple[object, object]]) -> str:
    return ", ".join(f"{name} {old} -> {new}" for name, (old, new) in changes.items())


def _has_changed_data(training: Training, found: LoadedCheckpoint, *, is_accepted: bool) -> bool:
    world, saved = training.world, found.state.get("data")
    before = config_from_dict(found.state["config"], str(found.path)).train
    moved = _moved_between_sides(before, training.config.train)
    if moved and not is_accepted and validation_split(training.config) is None:
        raise CheckpointError(
            f"{found.path}: {moved}, which moves samples between training and validation. Set it back, or {_NEXT_EPOCH}"
        )
    change = difference(saved, training.layout) if saved is not None and world.is_main else None
    change = world.gather(change)[0]  # the main process alone looks at each file
    if change and not is_accepted:
        raise CheckpointError(
            f"{found.path}: the train split has changed since: {change}. Restore it, or {_NEXT_EPOCH}, or {_NEW_RUN}"
        )
    if change:
        logger.warning("the train split has changed: %s; resuming from the next epoch", change)
    return change is not None


def _moved_between_sides(before: TrainConfig, now: TrainConfig) -> str:
    """Return the change of a setting that holds samples back; empty where it holds back the same."""
    if before.validation_share != now.validation_share:
        return f"train.validation_share was {exact(before.validation_share)}, now it is {exact(now.validation_share)}"
    if now.validation_share and before.validation_group != now.validation_group:
        return f"train.validation_group was {before.validation_group}, now it is {now.validation_group}"
    return ""


def continues_in(folder: Path, source: str | Path, found: LoadedCheckpoint | None) -> bool:
    """Return whether a run continues what its folder holds, and does not start from elsewhere."""
    return source == "auto" or (found is not None and is_latest_of(folder, found))


def is_latest_of(run_folder: Path, found: LoadedCheckpoint) -> bool:
    """Return whether a checkpoint is the latest valid one of a run, which continues there; others start a run there."""
    valid = [path for path in list_checkpoints(run_folder) if path not in found.damaged]
    return found.path.resolve() in [path.resolve() for path in valid[-1:]]


def _restore_scores(training: Training, state: dict[str, Any], *, continues: bool) -> None:
    """Restore the best score, and start again with what was measured on something else than the run measures on.

    continues: whether the folder's best.pt, which may be newer than the checkpoint `state`, is of the run.
    """
    world, best, plateau, measured_on = training.world, training.best, training.schedule.plateau, training.measured_on
    restarted = []
    if world.is_main and best.is_kept:
        states = [state, *([read_best(training.folder)] if continues else [])]
        comparable = [saved for saved in states if has_scores_of(best.figure, saved, measured_on)]
        best.value = max((float(saved["best"]) for saved in comparable if "best" in saved), default=None)
        if has_scores_of(best.figure, state, measured_on):
            training.patience.best.value, training.patience.n_without = state.get("patience", (state.get("best"), 0))
        if best.value is None and any("best" in saved for saved in states):
            restarted.append("checkpoint.best")
    if plateau and "plateau" in state:
        can_go_on = can_be_compared(training.method.progress, state, measured_on)
        if not world.gather(can_go_on)[0]:  # the main process alone validates
            plateau.best, plateau.bad_epochs = math.inf, 0  # the factor stays
            restarted.append("optimizer.decay=plateau")
    if restarted:
        why = "earlier values are not known to be of the same samples and metric"
        logger.info("%s: the search for the best starts over: %s", " and ".join(restarted), why)


def initialize_networks(training: Training) -> list[str]:
    """Start the networks of a new run from the weights that `init` names; return lines that list what was loaded.

    A file is loaded into the network that it is set for, or into each of its role: of a checkpoint, the network of the
    same name; of an original's folder that has files for two directions, that of its direction. Beside a generator's
    file of an original is that of its encoder.
    """
    config, report = training.config, list[str]()
    given = {"generator": config.init.generator, "discriminator": config.init.discriminator} | config.init.networks
    encodes = config.has_encoder or config.style.channels > 0
    for name, network in training.method.networks.items():
        key = name if name in given else network.role
        if (setting := given.get(key)) is None:
            continue
        way = config.method.direction_of(name) if len(config.method.translators) > 1 else None
        file, line = _initialize(network, name, network.role, expanded(setting, f"init.{key}"), f"init.{key}", way)
        if way and (of_file := original_direction(file) or way) != way:
            name_of = config.method.translator if network.role == "generator" else config.method.discriminator
            remedy = f"Set init.{name_of(of_file)}, or name a copy that has another name"
            raise ConfigError(f"init.{key}: {file} is of direction {of_file}, {name} of {way}. {remedy}.")
        report.append(line)
        if network.role == "generator" and encodes and encoder_file(file).is_file():
            report.append(_initialize(network, name, "encoder", encoder_file(file), "its encoder")[1])
    return report


def _initialize(
    network: TrainedNetwork, name: str, role: FileRole, place: Path, title: str, direction: str | None = None
) -> tuple[Path, str]:
    """Load weights into a network; return their file, and a line for the report, which begins with the title.

    role, direction: of the network in the file that `place`, which may be a folder, stands for.
    """
    keeps_biases = getattr(network.module, "biased_downs", False)
    load = partial(load_network, role=role, name=name, keeps_biases=keeps_biases)
    file, loaded = load_from(place, load, role, direction)
    transfer = transfer_weights(loaded, network.module)
    network.load_weights(network.module.state_dict())
    if not transfer.loaded:
        raise ConfigError(f"{title}: nothing of {file} has a place in this {role}; it holds {transfer.left[0]}, …")
    for setting in ("downsample", "upsample", "skips"):  # by which weights of the same shapes compute something else
        of_file, ours = (getattr(getattr(part, "generator", part), setting, None) for part in (loaded, network.module))
        if None not in (of_file, ours) and of_file != ours:
            remedy = f"set {role}.{setting}={of_file} to start with the same function"
            logger.warning("%s: %s has %s=%s, this run %s: %s", title, file, setting, of_file, ours, remedy)
    where = "" if name in (role, network.role) else f" into {name}"
    counts = f"{len(transfer.loaded)} tensors loaded from {file}{where}"
    return file, f"{title}  {counts}; left: {_some(transfer.left)}; new: {_some(transfer.new)}"


def _some(names: list[str]) -> str:
    if not names:
        return "none"
    return names[0] if len(names) == 1 else f"{names[0]} … {names[-1]} ({len(names)})"
