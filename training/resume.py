"""Where a run starts: at a checkpoint, or with initial weights from other files (section init)."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from torch import OutOfMemoryError

from configs import build
from configs.load import config_from_dict
from configs.schema import Config, config_differences
from data.loader import difference
from inference.load import load_from, load_network
from inference.original_weights import encoder_file, original_direction
from losses import registered_weights
from models.initialization import transfer_weights
from models.originals.format import FileRole
from training.run import Training
from training.trained_network import TrainedNetwork, freeze_parts
from training.validation import can_be_compared, has_scores_of, read_best
from utils.checkpoint import CheckpointError, check_training_state, checkpoints_beside, load_checkpoint
from utils.checkpoint_folder import LoadedCheckpoint, latest_valid, list_checkpoints
from utils.distributed import World
from utils.errors import ConfigError
from utils.files import expanded
from utils.log import logger

_NETWORK_SETTINGS = (
    *("method.", "generator.", "discriminator.", "features.", "style.", "contrastive.channels"),
    *("data.source_range", "data.target_range"),
)
_NOT_FOR_RESULTS = (
    *("run.name", "run.root", "run.device", "log.", "checkpoint.every_steps", "checkpoint.keep"),
    *("data.root", "data.workers", "data.cache", "data.timeout_s"),
    *("train.activation_checkpointing", "train.compile", "train.cuda_graph"),
    "train.deterministic",
)
"""Settings that cannot change the results: paths, speed and reports. A finished run accepts other values."""

_NEW_RUN = "start a new run with --resume never"
_NEXT_EPOCH = "resume from the next epoch with --accept-changed-data"

Changes = dict[str, tuple[object, object]]
"""Old and new values of changed settings, by `section.key`."""


@dataclass(frozen=True)
class ResumeOptions:
    """Where a run starts.

    source: "auto" (the run's latest checkpoint), "never" (a new run), or the path of a checkpoint or of its folder.
    accepts_changed_data: Whether to resume a run if its data set has changed. The run then starts at the next epoch.
    """

    source: str | Path = "auto"
    accepts_changed_data: bool = False


def start(training: Training, found: LoadedCheckpoint | None, options: ResumeOptions) -> list[str]:
    """Restore a run from a checkpoint, or load weights from section init. Return log lines about weights from init."""
    # only the main process knows the damaged checkpoints
    training.continues = training.world.gather(continues_in(training.folder, options.source, found))[0]
    if found is None:
        return initialize_networks(training)
    restore(training, found, accepts_changed_data=options.accepts_changed_data)
    found.state.clear()  # the tensors keep the checkpoint open, but the run may rename or delete this file
    return []


def find_checkpoint_together(folder: Path, source: str | Path, world: World) -> LoadedCheckpoint | None:
    """Let the main process find a checkpoint, and return this checkpoint in all processes."""
    found = find_checkpoint(folder, source) if world.is_main else None
    path = world.gather(found.path if found else None)[0]
    if world.is_main or path is None:
        return found
    if not path.is_file():
        raise CheckpointError(f"{path}: not found on this machine. All machines need the same folder run.root.")
    return LoadedCheckpoint(path, load_checkpoint(path))


def find_checkpoint(folder: Path, source: str | Path) -> LoadedCheckpoint | None:
    """Return the file `source`, or the latest valid checkpoint in the folder. Return None for a new run."""
    if source == "never":
        return None
    folder = folder if source == "auto" else Path(source)
    if folder.is_file():
        return LoadedCheckpoint(folder, load_checkpoint(folder))
    found = latest_valid(folder)
    if found is None and source != "auto":
        raise CheckpointError(f"resume {source}: no checkpoint is there{checkpoints_beside(folder)}")
    return found


def continues_in(folder: Path, source: str | Path, found: LoadedCheckpoint | None) -> bool:
    """Return whether to continue the run in `folder`: `source` is "auto", or `found` is the run's latest checkpoint."""
    if source == "auto" or found is None:
        return source == "auto"
    valid = [path for path in list_checkpoints(folder) if path not in found.damaged]
    return found.path.resolve() in [path.resolve() for path in valid[-1:]]


def restore(training: Training, found: LoadedCheckpoint, *, accepts_changed_data: bool = False) -> None:
    """Load a checkpoint. Its batch size and its number of processes may differ from this run.

    accepts_changed_data: See `ResumeOptions`.

    Raise CheckpointError if the file cannot be used, or if its networks or data set are different.
    """
    path, state = found.path, found.state
    check_training_state(state, path, needed_keys=["config"])
    try:
        saved = config_from_dict(state["config"], str(path))
        changes = check_same_networks(saved, training.config, path)
        training.load_state_dict(state)
        _restore_scores(training, state)
        before = state.get("data")
        change = difference(before, training.splits.train) if before is not None and training.world.is_main else None
        changed_data: str | None = training.world.gather(change)[0]  # only the main process looks at each file
    except (CheckpointError, OutOfMemoryError):
        raise
    except (ConfigError, RuntimeError, KeyError, ValueError, TypeError, AttributeError, IndexError) as error:
        raise CheckpointError(
            f"{path}: does not fit, or is damaged: {' '.join(str(error).split())}. Use another checkpoint."
        ) from error
    if changed_data and not accepts_changed_data:
        keys = [key for key in ("train.validation_share", "train.validation_group") if key in changes]
        remedy = f"Set {' and '.join(keys)} back" if keys else "Restore it"
        raise CheckpointError(
            f"{path}: the train split has changed since: {changed_data}. {remedy}, or {_NEXT_EPOCH}, or {_NEW_RUN}."
        )
    if changed_data:
        logger.warning("the train split has changed: %s; resuming from the next epoch", changed_data)
        if state["samples_into_epoch"]:
            training.loop.batches = (state["epoch"] + 1) * training.loop.batches_per_epoch
    if (before := state.get("registered_losses", {})) != (now := registered_weights()):
        logger.warning("registered losses have changed: %s -> %s", before or "none", now or "none")
        changes["registered losses"] = before or "none", now or "none"
    training.changes = _listed({key: of for key, of in changes.items() if not key.startswith(_NOT_FOR_RESULTS)})
    if training.continues:
        training.saved_step = training.loop.step
    freeze_parts(training.method.networks, training.config.train, training.loop.epoch)
    logger.info("resuming from %s", path)


def check_same_networks(saved: Config, wanted: Config, path: Path) -> Changes:
    """Log and return the settings that have changed since a checkpoint. Raise CheckpointError if networks differ."""
    changes = config_differences(saved, wanted)
    for key, (old, new) in changes.items():
        if key.startswith(_NETWORK_SETTINGS):
            raise CheckpointError(
                f"{path} was trained with {key}={old}, now it is {new}. Set it back, or {_NEW_RUN} or another run.name."
            )
    old, new = (vars(build.data_facts(config).conditioning) for config in (saved, wanted))
    inputs = {key: (old[key], new[key]) for key in old if key != "class_weights" and old[key] != new[key]}
    if inputs:
        raise CheckpointError(
            f"{path}: the networks' inputs differ ({_listed(inputs)}). Set data.* back, or {_NEW_RUN}."
        )
    if changes:
        logger.info("changed since: %s", _listed(changes))
    return changes


def _listed(changes: Mapping[str, tuple[object, object]]) -> str:
    return ", ".join(f"{name} {old} -> {new}" for name, (old, new) in changes.items())


def _restore_scores(training: Training, state: dict[str, Any]) -> None:
    """Restore the best scores, unless they belong to other samples or another metric."""
    world, best, plateau, measured_on = training.world, training.best, training.schedule.plateau, training.measured_on
    restarted = []
    if world.is_main and best.is_kept:
        # the run's own best.pt may be newer than the checkpoint
        states = [state, *([read_best(training.folder)] if training.continues else [])]
        comparable = [saved for saved in states if has_scores_of(best.figure, saved, measured_on)]
        best.value = max((float(saved["best"]) for saved in comparable if "best" in saved), default=None)
        if has_scores_of(best.figure, state, measured_on):
            training.patience.value, training.patience.n_without = state.get("patience", (state.get("best"), 0))
        if best.value is None and any("best" in saved for saved in states):
            restarted.append("checkpoint.best")
    if plateau and "plateau" in state:
        can_go_on = can_be_compared(training.method.progress, state, measured_on)
        if not world.gather(can_go_on)[0]:  # only the main process validates
            plateau.best, plateau.bad_epochs = math.inf, 0  # keep the factor
            restarted.append("optimizer.decay=plateau")
    if restarted:
        why = "earlier values may belong to other samples or another metric"
        logger.info("%s: the search for the best starts again: %s", " and ".join(restarted), why)


def initialize_networks(training: Training) -> list[str]:
    """Load initial weights (section init) into the networks of a new run. Return log lines on these weights.

    A key of init.networks names a network, or the role of several networks. A checkpoint provides the network
    of the same name. Folders of original weights have a file per direction, with the encoder next to it.
    """
    config, report = training.config, list[str]()
    given = config.init.networks
    encodes = config.has_encoder or config.style.channels > 0
    for name, network in training.method.networks.items():
        key = name if name in given else network.role
        if (setting := given.get(key)) is None:
            continue
        direction = config.method.direction_of(name) if len(config.method.translators) > 1 else None
        path = expanded(setting, f"init.{key}")
        file, line = _initialize(network, name, network.role, path, f"init.{key}", direction)
        if direction and (saved := original_direction(file) or direction) != direction:
            name_of = config.method.translator if network.role == "generator" else config.method.discriminator
            remedy = f"Set init.{name_of(saved)}, or use a copy with another name"
            raise ConfigError(f"init.{key}: {file} has direction {saved}, and {name} has {direction}. {remedy}.")
        report.append(line)
        if network.role == "generator" and encodes and encoder_file(file).is_file():
            report.append(_initialize(network, name, "encoder", encoder_file(file), "its encoder")[1])
    return report


def _initialize(
    network: TrainedNetwork, name: str, role: FileRole, place: Path, title: str, direction: str | None = None
) -> tuple[Path, str]:
    """Load weights into a network. Return the file of the weights, and a log line that begins with `title`.

    role, direction: Role and direction of the network in the file.
    """
    keeps_biases = getattr(network.module, "biased_downs", False)
    load = partial(load_network, role=role, name=name, keeps_biases=keeps_biases)
    file, loaded = load_from(place, load, role, direction)
    transfer = transfer_weights(loaded, network.module)
    network.load_weights(network.module.state_dict())
    if not transfer.loaded:
        raise ConfigError(f"{title}: no tensor in {file} fits this {role}. The file holds {transfer.left[0]}, …")
    where = "" if name in (role, network.role) else f" into {name}"
    counts = f"{len(transfer.loaded)} tensors loaded from {file}{where}"
    return file, f"{title}  {counts}; unused: {_some(transfer.left)}; newly initialized: {_some(transfer.new)}"


def _some(names: list[str]) -> str:
    if not names:
        return "none"
    return names[0] if len(names) == 1 else f"{names[0]} … {names[-1]} ({len(names)})"
