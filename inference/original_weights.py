"""Networks from the weight files of pix2pixHD, pix2pix, SPADE and OASIS, which hold no settings: shapes give them."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from torch import nn

from configs.load import config_differences, config_from_dict, config_to_dict
from configs.schema import Config, DataConfig, FeaturesConfig, GeneratorConfig, RunConfig, StyleConfig
from models.blocks import Norm
from models.global_generator import GlobalGenerator
from models.latent_inputs import StyleStem
from models.local_enhancer import EnhancerLevel, LocalEnhancer
from models.originals.layer_names import OriginalWeightsError
from models.originals.weights import USUAL_SIZES, LeftOpen, import_original
from models.spade_generator import SpadeGenerator
from models.spectral_norm import spectral_norms
from models.style_encoder import StyleConditionedGenerator, StyleEncoder
from models.unet_generator import UnetGenerator
from utils.checkpoint import read_weights_file
from utils.errors import ConfigError

_FIXED_BY_SHAPES = (
    "data.n_classes",
    "data.source_channels",
    "data.target_channels",
    "data.instance_edges",
    "generator.scale",
    "generator.output",
    "style.channels",
)


def original_network(file: Path, state: dict[str, Any], sizes: LeftOpen = USUAL_SIZES) -> nn.Module:
    """Return the network whose weights an original's file holds; sizes as for `import_original`.

    Raises:
        OriginalWeightsError: they are the weights of no network of the originals.
    """
    try:
        return import_original(state, sizes).network
    except OriginalWeightsError as error:
        raise OriginalWeightsError(f"{file}: {error}") from error


def original_generator(
    file: Path,
    state: dict[str, Any],
    overrides: Sequence[str],
    *,
    has_instances: bool,
    n_features: int,
    features_are_drawn: bool,
    sizes: LeftOpen = USUAL_SIZES,
) -> tuple[nn.Module, Config]:
    """Return the generator of an original's file, and the settings that follow from its shapes and `overrides`.

    See `load_generator`; sizes as for `import_original`.
    """
    generator = original_network(file, state, sizes)
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
        style=_style_config(generator),
        features=FeaturesConfig(n_channels=n_features, origin="encoded" if features_are_drawn else "precomputed"),
    )
    chosen = config_from_dict(config_to_dict(config), str(file), overrides)
    wanted_sizes = LeftOpen(chosen.generator.n_upsamplings, chosen.generator.noise_channels)
    if isinstance(generator, SpadeGenerator) and wanted_sizes not in (_sizes(generator), sizes):
        return original_generator(
            file,
            state,
            overrides,
            has_instances=has_instances,
            n_features=n_features,
            features_are_drawn=features_are_drawn,
            sizes=wanted_sizes,
        )
    for key, (fixed, wanted) in config_differences(config, chosen).items():
        if key in _FIXED_BY_SHAPES:
            n_noise = generator_config.noise_channels
            other = f", or change generator.noise_channels={n_noise}" if n_noise and key == "data.n_classes" else ""
            raise ConfigError(
                f"{file}: {key} is {fixed} by the shapes of its weights, not {wanted}. Remove the override{other}."
            )
    if chosen.data.is_stacked:
        folders = ", ".join(chosen.data.source_folder)
        raise ConfigError(f"{file}: takes sources of one folder, data.source_folder names {folders}. Name one of them.")
    if isinstance(generator, SpadeGenerator) and isinstance(generator.stem, StyleStem):
        _set_sides(file, generator.stem, chosen.style)
        generator = _with_encoder(file, generator)
    return generator, chosen


def _sizes(generator: SpadeGenerator) -> LeftOpen:
    return LeftOpen(generator.n_upsamplings, generator.noise.n_channels)


def encoder_file(file: Path) -> Path:
    """Return the file in which the originals keep the encoder of a generator's file: latest_net_E.pth."""
    return file.with_name(file.name.replace("_G.", "_E.") if "_G." in file.name else f"E_{file.name}")


def _style_config(generator: nn.Module) -> StyleConfig:
    stem = generator.stem if isinstance(generator, SpadeGenerator) else None
    if not isinstance(stem, StyleStem):
        return StyleConfig()
    return StyleConfig(channels=stem.in_features, height=stem.height, width=stem.width)


def _set_sides(file: Path, stem: StyleStem, style: StyleConfig) -> None:
    """Give the map of the style the sides of the settings: the weights hold only its number of pixels."""
    n_pixels = stem.height * stem.width
    if style.height * style.width != n_pixels:
        raise ConfigError(
            f"{file}: style.height={style.height} and style.width={style.width} are {style.height * style.width} "
            f"pixels, its weights have {n_pixels}, for instance {stem.height} and {stem.width}. Change the overrides."
        )
    stem.height, stem.width = style.height, style.width


def _with_encoder(file: Path, generator: SpadeGenerator) -> nn.Module:
    """Return a generator with the style encoder of the file beside its own; as it is, where there is none."""
    beside = encoder_file(file)
    if not beside.is_file():
        return generator
    encoder = original_network(beside, read_weights_file(beside))
    assert isinstance(generator.stem, StyleStem)
    form = (generator.stem.in_features, generator.base_channels)
    if not isinstance(encoder, StyleEncoder) or (encoder.style_channels, encoder.base_channels) != form:
        raise OriginalWeightsError(f"{beside}: is not the style encoder of {file}. Move it to another folder.")
    return StyleConditionedGenerator(generator, encoder)


def _channels(file: Path, generator: nn.Module, has_instances: bool, n_features: int) -> tuple[int, int]:
    """Return the numbers of channels of the source, without edges and features, and of the target."""
    convolutions = [module for module in generator.modules() if isinstance(module, nn.Conv2d | nn.ConvTranspose2d)]
    n_noise = generator.noise.n_channels if isinstance(generator, SpadeGenerator) else 0
    channels = convolutions[0].in_channels - n_noise - int(has_instances) - n_features
    out_channels = convolutions[-1].out_channels
    if channels < 1 or out_channels not in (1, 3):
        beside = " besides instance edges or features" if has_instances or n_features else ""
        raise OriginalWeightsError(
            f"{file}: translates {channels} channels{beside} into {out_channels}. Only label maps, RGB and grey images "
            "can be translated, and only into RGB or grey images."
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
            finest, trunk = generator.enhancers[-1], generator.trunk
            assert isinstance(finest, EnhancerLevel)
            return GeneratorConfig(
                name="local",
                base_channels=_first_convolution(finest).out_channels,
                n_downsamplings=len(trunk.downs),
                n_blocks=len(trunk.blocks),
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
        case SpadeGenerator():
            return GeneratorConfig(
                name="spade",
                base_channels=generator.base_channels,
                n_upsamplings=generator.n_upsamplings,
                n_middle_blocks=generator.n_middle_blocks,
                noise_channels=generator.noise.n_channels,
                hidden_channels=generator.hidden_channels,
                norm=_norm(generator),
                spectral_norm=bool(spectral_norms(generator)),
                spectral_iteration="v_first",
            )
    raise OriginalWeightsError(
        f"{file}: holds a {type(generator).__name__}, expected a generator (…_net_G.pth, …_EMA.pth)"
    )


def _first_convolution(network: nn.Module) -> nn.Conv2d:
    return next(module for module in network.modules() if isinstance(module, nn.Conv2d))


def _norm(network: nn.Module) -> Norm:
    return "batch" if any(isinstance(module, nn.BatchNorm2d) for module in network.modules()) else "instance"


def _has_dropout(network: nn.Module) -> bool:
    return any(isinstance(module, nn.Dropout) for module in network.modules())
