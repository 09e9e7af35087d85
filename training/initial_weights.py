"""Initial weights of a new run from other files: section init."""

from functools import partial
from pathlib import Path

from inference.load import load_from, load_network
from inference.original_weights import encoder_file, original_direction
from models.initialization import transfer_weights
from models.originals.format import FileRole
from training.run import Training
from training.trained_network import TrainedNetwork
from utils.errors import ConfigError
from utils.paths import expanded


def initialize_networks(training: Training) -> list[str]:
    """Load the weights that `init` names into the networks of a new run. Return lines that list them.

    A setting names a network, or a role and so each network of this role. A checkpoint provides the network of the same
    name, and the folder of an original with two directions the file of the same direction. The encoder's file of an
    original is next to the generator's file.
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
    """Load weights into a network. Return their file, and a line that begins with the title.

    role, direction: Role and direction of the network in the file.
    place: File or folder of the weights.
    """
    keeps_biases = getattr(network.module, "biased_downs", False)
    load = partial(load_network, role=role, name=name, keeps_biases=keeps_biases)
    file, loaded = load_from(place, load, role, direction)
    transfer = transfer_weights(loaded, network.module)
    network.load_weights(network.module.state_dict())
    if not transfer.loaded:
        raise ConfigError(f"{title}: nothing of {file} has a place in this {role}; it holds {transfer.left[0]}, …")
    where = "" if name in (role, network.role) else f" into {name}"
    counts = f"{len(transfer.loaded)} tensors loaded from {file}{where}"
    return file, f"{title}  {counts}; left: {_some(transfer.left)}; new: {_some(transfer.new)}"


def _some(names: list[str]) -> str:
    if not names:
        return "none"
    return names[0] if len(names) == 1 else f"{names[0]} … {names[-1]} ({len(names)})"
