"""A trained generator: from a checkpoint, from what tools.export made of it, or from a file of pix2pixHD or pix2pix."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from torch import Tensor, nn

from configs import build
from configs.load import config_from_dict, config_to_dict
from configs.schema import Config, DataConfig, FeaturesConfig, GeneratorConfig, RunConfig
from models.blocks import Norm
from models.feature_encoder import FeatureConditionedGenerator, FeatureEncoder
from models.global_generator import GlobalGenerator
from models.local_enhancer import EnhancerLevel, LocalEnhancer
from models.originals.layer_names import OriginalWeightsError
from models.originals.weights import import_original
from models.patch_discriminator import MultiscalePatchDiscriminator
from models.pixel_discriminator import PixelDiscriminator
from models.unet_generator import UnetGenerator
from utils.checkpoint import (
    CheckpointError,
    check_training_state,
    is_training_state,
    read_weights_file,
)
from utils.checkpoint_folder import latest_file, newest_run
from utils.errors import ConfigError
from utils.log import logger
from utils.safetensors_file import SUFFIX, read_safetensors

NetworkKind = Literal["generator", "encoder", "discriminator"]

EXPORT_FORMAT = "pairgan-generator"
EXPORT_VERSION = "1"
OF_OTHER_PROGRAMS = (".pt2", ".onnx")


@dataclass(frozen=True)
class LoadedGenerator:
    """A generator with its weights, on the CPU.

    config: how it was trained; for an original's file, what its shapes tell.
    step: steps it was trained for; None for an original's file, which does not say.
    weights: "average" where they are a moving average, otherwise "raw"; of an exported file what was chosen there.
    """

    file: Path
    config: Config
    step: int | None
    generator: nn.Module
    weights: str = "raw"

    @property
    def name(self) -> str:
        """The name of the run, or of an original's file."""
        is_in_run = self.step is not None and self.file.suffix != SUFFIX
        return self.file.resolve().parent.name if is_in_run else self.config.run.name

    def facts(self) -> dict[str, str]:
        """What an exported file tells of itself, as texts: the settings and the step as JSON, the sides it takes."""
        return {
            "format": EXPORT_FORMAT,
            "format_version": EXPORT_VERSION,
            "config": json.dumps(config_to_dict(self.config)),
            "step": json.dumps(self.step),
            "size_multiple": str(self.config.size_multiple),
            "min_size": str(self.config.min_size),
        }


def find_checkpoint_file(checkpoint: Path | None) -> Path:
    """A checkpoint file, the newest of a run folder that is whole, or (None) that of the newest run.

    Raises:
        CheckpointError: there is none.
    """
    chosen = checkpoint or newest_run(Path("runs"))
    if chosen is None:
        raise CheckpointError("no run with a checkpoint in runs: train one first, or name one with --checkpoint")
    if chosen.suffix in OF_OTHER_PROGRAMS:
        raise CheckpointError(f"{chosen}: is for other programs; name the run, a checkpoint or a .safetensors file")
    if not chosen.exists():
        runs = ", ".join(sorted({path.parent.name for path in chosen.parent.glob("*/checkpoint-*.pt")})) or "none"
        raise CheckpointError(f"{chosen}: no such checkpoint file; runs in {chosen.parent}: {runs}")
    if not chosen.is_dir():
        return chosen
    file = latest_file(chosen, logger.warning)
    if file is None:
        runs = ", ".join(sorted({str(path.parent) for path in chosen.glob("*/checkpoint-*.pt")})) or "none"
        raise CheckpointError(f"{chosen}: the folder holds no checkpoint; runs below it: {runs}")
    return file


def load_generator(
    file: Path,
    overrides: Sequence[str] = (),
    *,
    has_instances: bool = False,
    n_features: int = 0,
    features_are_drawn: bool = False,
    raw_weights: bool = False,
) -> LoadedGenerator:
    """Read a generator; of a checkpoint that holds a moving average of its weights, that average.

    A .safetensors file is one of tools.export, with the weights that were chosen there.

    raw_weights: take the weights as they were trained all the same.
    overrides: `section.key=value` in place of the settings that the file tells.
    has_instances: whether one of an original's input channels is the instances' edges; its file does not say.
    n_features: how many of an original's input channels are instance features, which are drawn, or else precomputed.

    Raises:
        CheckpointError, OriginalWeightsError, ConfigError: the file or an override cannot be used.
    """
    if file.suffix == SUFFIX:
        return _load_exported(file, overrides)
    state = read_weights_file(file)
    if not is_training_state(state):
        return _load_original(file, state, overrides, has_instances, n_features, features_are_drawn)
    check_training_state(state, file, needed_keys=["config", "step", "generator"])
    config = config_from_dict(state["config"], str(file), overrides)
    weights = state["generator"]["network"]
    is_average = "generator_average" in state and not raw_weights
    if is_average:
        averaged = state["generator_average"].items()
        weights = {name.removeprefix("module."): value for name, value in averaged if name.startswith("module.")}
    generator = _build_with(weights, config, file)
    return LoadedGenerator(file, config, state["step"], generator, "average" if is_average else "raw")


def load_network(file: Path, kind: NetworkKind) -> nn.Module:
    """Read one network, from a checkpoint or from an original's file; a checkpoint's generator has its encoder with it.

    Raises:
        CheckpointError, OriginalWeightsError, ConfigError: the file cannot be used, or holds another network.
    """
    is_exported = file.suffix == SUFFIX
    state = {} if is_exported else read_weights_file(file)
    if is_exported or is_training_state(state):
        if kind == "discriminator":
            return _load_discriminator(file, state)
        generator = load_generator(file).generator
        if kind == "generator":
            return generator
        if not isinstance(generator, FeatureConditionedGenerator):
            raise CheckpointError(f"{file}: its generator has no feature encoder")
        return generator.encoder
    network = _import(file, state)
    expected: dict[str, tuple[type, ...]] = {
        "generator": (GlobalGenerator, LocalEnhancer, UnetGenerator),
        "encoder": (FeatureEncoder,),
        "discriminator": (MultiscalePatchDiscriminator, PixelDiscriminator),
    }
    if not isinstance(network, expected[kind]):
        raise OriginalWeightsError(f"{file}: holds a {type(network).__name__}, expected a {kind}")
    return network


def _build_with(weights: Mapping[str, Tensor], config: Config, file: Path) -> nn.Module:
    generator = build.build_generator(config)
    try:
        generator.load_state_dict(weights)
    except RuntimeError as error:
        raise CheckpointError(_misfit(file, error)) from error
    return generator


def _misfit(file: Path, error: RuntimeError) -> str:
    """torch lists each weight; the first is enough."""
    first = next((line.strip() for line in str(error).splitlines()[1:]), str(error)).rstrip(".")
    return f"{file}: its weights do not fit its configuration: {first}; leave settings of networks out"


def _load_exported(file: Path, overrides: Sequence[str]) -> LoadedGenerator:
    weights, facts = read_safetensors(file)
    if facts.get("format") != EXPORT_FORMAT:
        raise CheckpointError(f"{file}: holds weights, and no settings of this application; name another file")
    if facts.get("format_version") != EXPORT_VERSION:
        raise CheckpointError(
            f"{file}: has format version {facts.get('format_version')}, this version of the application reads "
            f"{EXPORT_VERSION}; update it"
        )
    try:
        settings, step = json.loads(facts["config"]), json.loads(facts["step"])
    except (KeyError, ValueError) as error:
        raise CheckpointError(f"{file}: its settings cannot be read; export it again") from error
    if not isinstance(settings, dict) or not isinstance(step, int | None):
        raise CheckpointError(f"{file}: its settings are damaged; export it again")
    config = config_from_dict(settings, str(file), overrides)
    return LoadedGenerator(file, config, step, _build_with(weights, config, file))


def _load_discriminator(file: Path, state: dict[str, Any]) -> nn.Module:
    check_training_state(state, file, needed_keys=["config", "discriminator"])
    discriminator = build.build_discriminator(config_from_dict(state["config"], str(file)))
    try:
        discriminator.load_state_dict(state["discriminator"]["network"])
    except RuntimeError as error:
        raise CheckpointError(_misfit(file, error)) from error
    return discriminator


def _import(file: Path, state: dict[str, Any]) -> nn.Module:
    try:
        return import_original(state).network
    except OriginalWeightsError as error:
        raise OriginalWeightsError(f"{file}: {error}") from error


def _load_original(
    file: Path,
    state: dict[str, Any],
    overrides: Sequence[str],
    has_instances: bool,
    n_features: int,
    features_are_drawn: bool,
) -> LoadedGenerator:
    generator = _import(file, state)
    generator_config = _generator_config(file, generator)
    channels, out_channels = _channels(file, generator, has_instances, n_features)
    is_image = channels in (1, 3)  # any other number are one-hot labels
    config = Config(
        run=RunConfig(name=file.stem),
        data=DataConfig(
            layout="paired_folders",
            root=".",
            n_classes=0 if is_image else channels,
            source_channels=channels if is_image else 3,
            target_channels=out_channels,
            instance_edges=has_instances,
            preprocess="none",
        ),
        generator=generator_config,
        features=FeaturesConfig(n_channels=n_features, origin="encoded" if features_are_drawn else "precomputed"),
    )
    chosen = config_from_dict(config_to_dict(config), str(file), overrides)
    for part in ("data.n_classes", "data.source_channels", "data.target_channels", "data.instance_edges"):
        section, key = part.split(".")
        told, wanted = getattr(getattr(config, section), key), getattr(getattr(chosen, section), key)
        if told != wanted:
            raise ConfigError(f"{file}: {part} is {told} by its shapes, not {wanted}; leave it out")
    return LoadedGenerator(file, chosen, None, generator)


def _channels(file: Path, generator: nn.Module, has_instances: bool, n_features: int) -> tuple[int, int]:
    """Channels of the source, without edges and features, and of the target."""
    convolutions = [module for module in generator.modules() if isinstance(module, nn.Conv2d | nn.ConvTranspose2d)]
    channels = convolutions[0].in_channels - int(has_instances) - n_features
    out_channels = convolutions[-1].out_channels
    if channels < 1 or out_channels not in (1, 3):
        beside = " beside the instances' edges or features" if has_instances or n_features else ""
        raise OriginalWeightsError(
            f"{file}: translates {channels} channels{beside} into {out_channels}; label maps, RGB or grey images into "
            "RGB or grey ones can be translated"
        )
    return channels, out_channels


def _generator_config(file: Path, generator: nn.Module) -> GeneratorConfig:
    match generator:
        case GlobalGenerator():
            return GeneratorConfig(
                name="global",
                base_channels=_first_convolution(generator).out_channels,
                n_downsamplings=len(generator.downs),
                n_blocks=len(generator.blocks),
                norm=_norm(generator),
                dropout=_has_dropout(generator),
            )
        case LocalEnhancer():
            finest = generator.enhancers[-1]
            assert isinstance(finest, EnhancerLevel)
            return GeneratorConfig(
                name="local",
                base_channels=_first_convolution(finest).out_channels,
                n_downsamplings=len(generator.trunk.downs),
                n_blocks=len(generator.trunk.blocks),
                n_enhancers=len(generator.enhancers),
                n_enhancer_blocks=len(finest.blocks),
                norm=_norm(generator),
            )
        case UnetGenerator():
            return GeneratorConfig(
                name="unet",
                base_channels=_first_convolution(generator).out_channels,
                n_downsamplings=len(generator.downs),
                norm=_norm(generator),
                dropout=_has_dropout(generator),
            )
    raise OriginalWeightsError(f"{file}: holds a {type(generator).__name__}, expected a generator (…_net_G.pth)")


def _first_convolution(network: nn.Module) -> nn.Conv2d:
    return next(module for module in network.modules() if isinstance(module, nn.Conv2d))


def _norm(network: nn.Module) -> Norm:
    return "batch" if any(isinstance(module, nn.BatchNorm2d) for module in network.modules()) else "instance"


def _has_dropout(network: nn.Module) -> bool:
    return any(isinstance(module, nn.Dropout) for module in network.modules())
