"""Load weight files of the original programs (originals). The shapes of the weights determine the settings."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import nn

from configs.load import config_from_dict, config_to_dict
from configs.schema import (
    ROOT,
    Config,
    DataConfig,
    FeaturesConfig,
    GeneratorConfig,
    RunConfig,
    StyleConfig,
    config_differences,
)
from models import GENERATORS
from models.generator import Generator
from models.latent_inputs import StyleStem, takes_style
from models.originals.format import FileRole, OriginalWeightsError
from models.originals.weights import FORMATS, ImportedNetwork, import_original
from models.spectral_norm import spectral_norms
from models.style_encoder import StyleConditionedGenerator, StyleEncoder
from utils.checkpoint import read_weights_file
from utils.errors import ConfigError
from utils.log import logger
from utils.signatures import accepted

_FIXED_BY_SHAPES = (
    *("data.n_classes", "data.source_channels", "data.target_channels", "data.instance_edges"),
    *("generator.scale", "generator.output", "style.channels"),
)
_LETTERS: dict[FileRole, tuple[str, ...]] = {  # letters in file names, preferred first; OASIS uses EMA
    "generator": ("EMA", "G", "G_A", "G_B"),
    "encoder": ("E",),
    "discriminator": ("D", "D_A", "D_B"),
    "projection": ("F",),
}
_DIRECTIONS = {"G_A": "AtoB", "G_B": "BtoA", "D_A": "AtoB", "D_B": "BtoA"}  # D_A judges images from G_A
_FILE_NAME = re.compile(r"(?P<when>latest|best|(iter_)?(?P<number>\d+))_(net_)?(?P<letter>EMA|[GD](_[AB])?|E|F)\.pth")
_FOLDER_OF_OASIS = "models"  # subfolder of a run's folder


def original_direction(file: Path) -> str | None:
    """Return the direction of a CycleGAN network from its file name, or None for other files."""
    match = _FILE_NAME.fullmatch(file.name)
    return _DIRECTIONS.get(match["letter"]) if match else None


def original_file(folder: Path, role: FileRole, direction: str | None = None) -> Path | None:
    """Return the file of a network in a folder, or None. Prefer "latest", then "best", then the highest number.

    direction: Direction of the generator, or of the generator that a discriminator judges. None: prefer AtoB.
    """
    found: dict[Path, tuple[bool, bool, int, int]] = {}
    letters = [letter for letter in _LETTERS[role] if direction in (None, _DIRECTIONS.get(letter, "AtoB"))]
    for path in (path for place in (folder, folder / _FOLDER_OF_OASIS) for path in place.glob("*.pth")):
        match = _FILE_NAME.fullmatch(path.name)
        if match and match["letter"] in letters:
            when = match["when"]
            found[path] = (when == "latest", when == "best", int(match["number"] or 0), -letters.index(match["letter"]))
    if not found:
        return None
    chosen, *others = sorted(found, key=lambda path: (found[path], path), reverse=True)
    if others:
        names = ", ".join(path.name for path in others)
        has_both = direction is None and len({original_direction(path) for path in found}) > 1
        logger.info(
            "chosen       %s, not %s. To change this, name a file%s", chosen.name, names, " or --direction" * has_both
        )
    return chosen


def original_network(
    file: Path, state: dict[str, Any], role: FileRole, chosen: Mapping[str, int] | None = None
) -> ImportedNetwork:
    """Return the network of an original's file in float32. chosen: See `import_original`.

    Raises:
        OriginalWeightsError: The weights belong to no network of the originals, or to a network with another role.
    """
    floats = {
        key: value.float() for key, value in state.items() if torch.is_tensor(value) and value.is_floating_point()
    }
    try:
        imported = import_original(state | floats, chosen)
    except OriginalWeightsError as error:
        raise OriginalWeightsError(f"{file}: {error}") from error
    if FORMATS[imported.scheme].role != role:
        example = " (…_net_G.pth, …_EMA.pth)" if role == "generator" else ""
        raise OriginalWeightsError(f"{file}: holds a {type(imported.network).__name__}, expected a {role}{example}")
    return imported


@dataclass(frozen=True)
class OriginalInputs:
    """Facts about the input channels of an original's generator that its file does not record.

    has_instances: Whether one channel holds the instance edges.
    n_features: Number of channels of instance features.
    features_are_drawn: Whether features are sampled from clusters. If not, features are precomputed maps.
    """

    has_instances: bool = False
    n_features: int = 0
    features_are_drawn: bool = False


SOURCE_ALONE = OriginalInputs()


def original_generator(
    file: Path, state: dict[str, Any], overrides: Sequence[str], inputs: OriginalInputs
) -> tuple[nn.Module, Config]:
    """Return an original's generator and its settings, derived from weight shapes and overrides."""
    imported = original_network(file, state, "generator")
    config, chosen = _settings(file, imported, inputs, overrides)
    wanted = {key: getattr(chosen.generator, key) for key in FORMATS[imported.scheme].left_open}
    if not wanted.items() <= imported.settings.items():
        imported = original_network(file, state, "generator", wanted)
        config, chosen = _settings(file, imported, inputs, overrides)
    for key, (fixed, other) in config_differences(config, chosen).items():
        if key in _FIXED_BY_SHAPES:
            n_noise = config.generator.noise_channels
            remedy = f", or change generator.noise_channels={n_noise}" if n_noise and key == "data.n_classes" else ""
            raise ConfigError(f"{file}: the weights need {key}={fixed}, not {other}. Remove the override{remedy}.")
    if chosen.data.is_stacked:
        raise ConfigError(f"{file}: takes sources from only one folder. Name one folder with data.source_folder.")
    if not takes_style(imported.network):
        return imported.network, chosen
    return _with_style(file, imported, chosen.style), chosen


def _settings(
    file: Path, imported: ImportedNetwork, inputs: OriginalInputs, overrides: Sequence[str]
) -> tuple[Config, Config]:
    """Return settings derived from the shapes of a network: first without overrides, then with overrides."""
    shapes, network_class = imported.settings, FORMATS[imported.scheme].network
    n_others = int(inputs.has_instances) + inputs.n_features
    channels, out_channels = shapes["in_channels"] - n_others, shapes["out_channels"]
    if channels < 1 or out_channels not in (1, 3):
        others = " (without instance edges and features)" if n_others else ""
        raise OriginalWeightsError(
            f"{file}: translates {channels} channels{others} into {out_channels}. Only label maps, RGB and grey images "
            "are supported as sources, and only RGB and grey images as targets."
        )
    is_image = channels in (1, 3)  # other numbers of channels mean one-hot labels
    generator = accepted(GeneratorConfig, shapes)
    generator["name"] = next(name for name, known in GENERATORS.items() if known is network_class)
    if spectral_norms(imported.network):
        generator |= {"spectral_norm": True, "spectral_iteration": "v_first"}
    style = StyleConfig()
    if takes_style(imported.network):
        style = StyleConfig(shapes["style_channels"], [shapes["style_height"], shapes["style_width"]])
    are_maps = inputs.n_features > 0 and not inputs.features_are_drawn
    config = Config(
        run=RunConfig(name=file.stem),
        data=DataConfig(
            layout="paired_folders",
            root=ROOT,
            direction="BtoA" if is_image and original_direction(file) == "BtoA" else "AtoB",
            n_classes=0 if is_image else channels,
            source_channels=channels if is_image else 3,
            target_channels=out_channels,
            instance_edges=inputs.has_instances,
            preprocess="none",
        ),
        generator=GeneratorConfig(**generator),
        style=style,
        features=FeaturesConfig(n_channels=inputs.n_features, origin="precomputed" if are_maps else "encoded"),
    )
    return config, config_from_dict(config_to_dict(config), str(file), overrides)


def encoder_file(file: Path) -> Path:
    """Return the path of the encoder for an original's generator file, for example latest_net_E.pth."""
    return file.with_name(file.name.replace("_G.", "_E.") if "_G." in file.name else f"E_{file.name}")


def _with_style(file: Path, imported: ImportedNetwork, style: StyleConfig) -> nn.Module:
    """Set the size of the first feature map to `style.size`. Return the generator, with a style encoder if found.

    The weights determine the number of pixels of this feature map, but not its height and width.
    """
    generator = imported.network
    assert isinstance(generator, Generator)
    stem = generator.get_submodule("stem")
    assert isinstance(stem, StyleStem)
    height, width = style.size
    if height * width != stem.height * stem.width:
        raise ConfigError(
            f"{file}: style.size=[{height},{width}] is {height * width} pixels, the weights need "
            f"{stem.height * stem.width}, for example [{stem.height},{stem.width}]. Change the override."
        )
    stem.height, stem.width = height, width
    encoder_path = encoder_file(file)
    if not encoder_path.is_file():
        return generator
    found = import_original(read_weights_file(encoder_path))
    expected = {key: imported.settings[key] for key in ("style_channels", "base_channels")}
    if not isinstance(found.network, StyleEncoder) or not expected.items() <= found.settings.items():
        raise OriginalWeightsError(f"{encoder_path}: is not the style encoder of {file}. Move it elsewhere.")
    return StyleConditionedGenerator(generator, found.network.float())
