"""Load trained networks from checkpoints, exports, or weight files of the original programs (originals)."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from pathlib import Path
from typing import Any, TypeVar

import torch
from torch import Tensor, nn

from configs import build
from configs.build import image_sides
from configs.data_facts import DataFacts
from configs.load import config_from_dict, config_to_dict
from configs.schema import Config
from data.conditioning import Conditioning
from inference.original_weights import (
    SOURCE_ALONE,
    OriginalInputs,
    original_direction,
    original_file,
    original_generator,
    original_network,
)
from models.generator import EncodedGenerator
from models.instance_features import FeatureClusters
from models.originals.format import FileRole
from models.patch_projection import PatchProjection
from models.spectral_norm import settle_spectral_norm
from utils.checkpoint import (
    MOST_NAMED,
    CheckpointError,
    check_training_state,
    checkpoints_beside,
    is_training_state,
    listed_digest,
    read_weights_file,
)
from utils.checkpoint_folder import newest_run, read_latest
from utils.plain_values import read_json
from utils.safetensors_file import SUFFIX, read_safetensors

T = TypeVar("T")

EXPORT_FORMAT = "pairgan-generator"
EXPORT_VERSION = "1"
SCALED_EXPORT_VERSION = "2"  # output and input differ in size, so programs for version 1 would crop wrongly
_MOST_TAPS = 1000  # maximum number of layers of a projection, because construction takes quadratic time


@dataclass(frozen=True)
class LoadedGenerator:
    """A generator with its weights, on the CPU.

    config: Settings for `direction`. Settings data.source_… describe the generator's input, and data.target_… describe
        its output. For an original's file, the settings are derived from the shapes of the weights.
    step: Training step of the weights, or None for an original's file.
    direction: Direction of the translation, see `MethodConfig.translators`.
    weights: "average" if the weights are a moving average, otherwise "raw". Exported files count as "raw".
    sha256: Digest of the file when it was read, or None if not computed. Training can replace the file later.
    n_samples: Number of training samples, or None if the file does not record it.
    stack: Names of the run's source folders if it has several and `direction` is BtoA. Otherwise None.
    clusters: Clusters to sample instance features from. None if samples provide them, or no features are needed.
    card: Model card of an exported file; empty for other files.
    others: Further checkpoints whose outputs `generator` averages.
    """

    file: Path
    config: Config
    step: int | None
    generator: nn.Module
    direction: str = "AtoB"
    weights: str = "raw"
    sha256: str | None = None
    n_samples: int | None = None
    stack: list[str] | None = None
    clusters: FeatureClusters | None = None
    card: Mapping[str, Any] = field(default_factory=dict)
    others: Sequence["LoadedGenerator"] = ()

    @property
    def _is_in_run(self) -> bool:
        return self.step is not None and self.file.suffix != SUFFIX

    @property
    def name(self) -> str:
        """The name of the run, or of an original's file."""
        return self.file.resolve().parent.name if self._is_in_run else self.config.run.name

    @property
    def directions(self) -> list[str]:
        """All directions that the file has a generator for."""
        return list(self.config.method.translators) if self._is_in_run else [self.direction]

    @property
    def reading_config(self) -> Config:
        """The settings for reading samples. If features are sampled from clusters, samples need no feature maps."""
        if self.clusters is None:
            return self.config
        # the encoder does not run, so its n_downsamplings must not restrict image sizes
        return replace(self.config, features=replace(self.config.features, origin="encoded", n_downsamplings=1))

    @cached_property
    def data_facts(self) -> DataFacts:
        """Properties of sources and targets, derived from the settings."""
        return build.data_facts(self.reading_config)

    @property
    def conditioning(self) -> Conditioning:
        """Converts a batch to the inputs of the generator."""
        return self.data_facts.conditioning

    @property
    def named_direction(self) -> str | None:
        """The direction if a generator for the reverse direction also exists, otherwise None."""
        has_other = len(self.config.method.translators) > 1 or original_direction(self.file) is not None
        return self.direction if has_other else None

    def facts(self) -> dict[str, str]:
        """Return the metadata for an exported file. Omit paths, because users publish such files."""
        sides = image_sides(self.config)
        return {
            "format": EXPORT_FORMAT,
            "format_version": EXPORT_VERSION if self.config.generator.scale == 1 else SCALED_EXPORT_VERSION,
            "config": json.dumps(config_to_dict(self.config.without_paths())),
            "step": json.dumps(self.step),
            "direction": self.direction,
            "size_multiple": str(sides.multiple),
            "min_size": str(sides.minimum),
            "card": json.dumps(self.card),
        }


def load_from(
    checkpoint: Path | None, load: Callable[[Path], T], role: FileRole = "generator", direction: str | None = None
) -> tuple[Path, T]:
    """Load a named file, or the latest valid checkpoint of a run. Return its path and the result of `load`.

    checkpoint: File, folder of a run, folder of an original's run, or None for the newest run in runs/.
    role, direction: Network to choose in an original's folder, which has one file per network.

    Raises:
        CheckpointError: The file does not exist, or `load` raises this error.
    """
    chosen = checkpoint or newest_run(Path("runs"))
    if chosen is None:
        raise CheckpointError("runs: no run with a checkpoint. Train one first, or name one with --checkpoint.")
    if chosen.suffix == ".onnx":
        raise CheckpointError(f"{chosen}: is an ONNX export. Name a run, a checkpoint or a .safetensors file.")
    if not chosen.exists():
        there = checkpoints_beside(chosen) or f". Runs in {chosen.parent}: {_runs_in(chosen.parent)}."
        raise CheckpointError(f"{chosen}: no such checkpoint file{there}")
    if not chosen.is_dir():
        return chosen, load(chosen)
    if found := read_latest(chosen, load, "name another run"):
        return found[:2]
    if file := original_file(chosen, role, direction):
        return file, load(file)
    files = ", ".join(sorted(path.name for path in chosen.glob("*.pth"))[:MOST_NAMED]) or "none"
    what = f"{role} {direction}" if direction else role
    raise CheckpointError(
        f"{chosen}: the folder holds no checkpoint and no {what} of an original program. Name one of these files: "
        f"{files}, or one of these runs: {_runs_in(chosen)}."
    )


def _runs_in(folder: Path) -> str:
    """Return the names of run folders in a folder, including runs of the originals, as text."""
    patterns = ("*/checkpoint-*.pt", "*/*_net_G*.pth", "*/models/*_EMA.pth")
    names = {path.relative_to(folder).parts[0] for pattern in patterns for path in folder.glob(pattern)}
    return ", ".join(sorted(names)) or "none"


def load_generator(
    file: Path,
    overrides: Sequence[str] = (),
    *,
    direction: str | None = None,
    original: OriginalInputs = SOURCE_ALONE,
    raw_weights: bool = False,
) -> LoadedGenerator:
    """Read a generator from a checkpoint, an exported .safetensors file or an original's file.

    overrides: Settings `section.key=value` that replace settings of the file, see `LoadedGenerator.config`.
    direction: Direction of the translation. None: the only direction of the file, or the default of its method.
    original: Facts about input channels that an original's file does not record.
    raw_weights: Whether to load the trained weights of a checkpoint instead of their moving average.

    Raises:
        CheckpointError, OriginalWeightsError, ConfigError: The file or an override cannot be used.
    """
    if file.suffix == SUFFIX:
        return _load_exported(file, overrides, direction)
    state = read_weights_file(file)
    if not is_training_state(state):
        generator, config = original_generator(file, state, overrides, original)
        of_file = original_direction(file) or "AtoB"
        _check_direction(file, of_file, direction)
        return LoadedGenerator(file, config, None, generator, of_file)
    check_training_state(state, file, needed_keys=["config", "step"])
    settings, stack = state["config"], None
    if direction is not None:
        config = config_from_dict(settings, str(file))
        direction = config.direction(direction)
        if direction == "BtoA":  # exchange source and target before overrides are applied
            stack = config.data.source_folder if config.data.is_stacked else None
            settings = config_to_dict(replace(config, data=config.data_of(direction)))
    config = config_from_dict(settings, str(file), overrides)
    name = config.method.translator(direction)
    check_training_state(state, file, needed_keys=[f"networks.{name}", "averages"])
    weights = state["networks"][name]
    is_average = name in state["averages"] and not raw_weights
    if is_average:
        averaged = state["averages"][name].items()
        weights = {key.removeprefix("module."): value for key, value in averaged if key.startswith("module.")}
    generator = _loaded(partial(build.build_generator, config), weights, file)
    if is_average:
        settle_spectral_norm(generator)
    return LoadedGenerator(
        file,
        config,
        state["step"],
        generator,
        direction or config.method.default_direction,
        weights="average" if is_average else "raw",
        sha256=listed[1] if (listed := listed_digest(file)) else None,
        n_samples=state.get("n_samples"),
        stack=stack,
    )


def load_network(
    file: Path, role: FileRole, name: str | None = None, *, direction: str | None = None, keeps_biases: bool = False
) -> nn.Module:
    """Read one network from a checkpoint, an exported file or an original's file. Raise the errors of `load_generator`.

    A checkpoint's generator includes its encoder.

    name: Name of the network in a checkpoint. direction: Direction of the network if `name` is None.
    keeps_biases: Whether an original's ResNet keeps its biases before norms. They change the features in CUT's loss.
    """
    is_exported = file.suffix == SUFFIX
    state = {} if is_exported else read_weights_file(file)
    if not is_exported and not is_training_state(state):
        return original_network(file, state, role, {"biased_downs": keeps_biases}).network
    if role == "discriminator":
        return _discriminator(file, state, name, direction)
    if role == "projection":
        return _projection(file, state)
    if name is not None and "config" in state:
        direction = config_from_dict(state["config"], str(file)).method.direction_of(name) or direction
    generator = load_generator(file, direction=direction).generator
    if role == "generator":
        return generator
    if not isinstance(generator, EncodedGenerator):
        raise CheckpointError(f"{file}: its generator has no encoder. Name another file.")
    return generator.encoder


def _discriminator(file: Path, state: dict[str, Any], name: str | None, direction: str | None) -> nn.Module:
    check_training_state(state, file, needed_keys=["config"])
    config = config_from_dict(state["config"], str(file))
    direction = config.direction(direction)
    config.method.translator(direction)
    name = name or config.method.discriminator(direction)
    check_training_state(state, file, needed_keys=[f"networks.{name}"])
    build_network = partial(build.build_discriminator, config, config.method.direction_of(name))
    return _loaded(build_network, state["networks"][name], file)


def _projection(file: Path, state: dict[str, Any]) -> nn.Module:
    check_training_state(state, file, needed_keys=["networks.projection"])
    weights = state["networks"]["projection"]
    shapes = [value.shape for key, value in weights.items() if key.endswith(".0.weight")]
    if not 1 <= len(shapes) <= _MOST_TAPS or any(len(shape) != 2 for shape in shapes):
        raise CheckpointError(f"{file}: expected a projection with 1 to {_MOST_TAPS} layers. Name another file.")
    features, channels = [shape[1] for shape in shapes], shapes[0][0]
    return _loaded(partial(PatchProjection, features, channels=channels), weights, file)


def _check_direction(file: Path, found: str, wanted: str | None) -> None:
    """Raise CheckpointError if `found`, the only direction of a file, is not the wanted direction."""
    if wanted not in (None, found):
        remedy = f"Leave --direction out, or name the file of {wanted}."
        raise CheckpointError(f"{file}: its generator translates {found}, not {wanted}. {remedy}")


def _load_exported(file: Path, overrides: Sequence[str], wanted: str | None) -> LoadedGenerator:
    weights, facts = read_safetensors(file)
    found = facts.get("format"), facts.get("format_version")
    if found not in ((EXPORT_FORMAT, EXPORT_VERSION), (EXPORT_FORMAT, SCALED_EXPORT_VERSION)):
        expected = f"{EXPORT_FORMAT} {EXPORT_VERSION} or {SCALED_EXPORT_VERSION}"
        raise CheckpointError(f"{file}: has format {found[0]} {found[1]}, expected {expected}. Name another file.")
    facts = {"card": "{}", **facts}  # files of earlier versions have no card
    try:
        settings, step, card = (read_json(facts[name]) for name in ("config", "step", "card"))
        if not (isinstance(settings, dict) and isinstance(step, int | None) and isinstance(card, dict)):
            raise ValueError("the settings have another type")
    except (KeyError, ValueError) as error:
        raise CheckpointError(f"{file}: its settings cannot be read. Export it again.") from error
    config = config_from_dict(settings, str(file), overrides)
    direction = facts.get("direction", config.method.default_direction)  # files of earlier versions have no direction
    _check_direction(file, direction, config.direction(wanted))
    generator = _loaded(partial(build.build_generator, config), weights, file)
    return LoadedGenerator(file, config, step, generator, direction, card=card)


def _loaded(build_network: Callable[[], nn.Module], weights: Mapping[str, Tensor], file: Path) -> nn.Module:
    """Return a network with the weights of a file. Raise CheckpointError if the weights do not fit.

    Compare shapes on the meta device first. Otherwise wrong settings in a file could fill the memory.
    """
    weights = dict(weights)  # drops `_metadata`: the first call would leave assign=True in it for the second call
    try:
        with torch.device("meta"):
            build_network().load_state_dict(weights, assign=True)
    except (RuntimeError, OverflowError) as error:
        # torch lists all weights that do not fit; report only the first
        first = next((line.strip() for line in str(error).splitlines()[1:]), str(error)).rstrip(".")
        raise CheckpointError(
            f"{file}: its weights do not fit its configuration: {first}. Remove overrides of network settings."
        ) from error
    if sum(value.nbytes for value in weights.values()) > file.stat().st_size:
        raise CheckpointError(f"{file}: its weights are larger than the file. Name another file.")
    if not all(value.isfinite().all() and not value.is_complex() for value in weights.values()):
        raise CheckpointError(f"{file}: its weights are not finite real numbers. Name another file.")
    network = build_network()
    network.load_state_dict(weights)
    return network
