"""The weight files of the originals: found in their folders, and read as networks.

They hold no settings; the shapes of their weights give these.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import nn

from configs.load import config_differences, config_from_dict, config_to_dict
from configs.schema import Config, DataConfig, FeaturesConfig, GeneratorConfig, RunConfig, StyleConfig
from configs.without_paths import ROOT
from models import GENERATORS
from models.generator import Generator
from models.latent_inputs import StyleStem
from models.originals.format import FileRole, OriginalWeightsError
from models.originals.weights import FORMATS, ImportedNetwork, import_original
from models.spectral_norm import spectral_norms
from models.style_encoder import StyleConditionedGenerator, StyleEncoder
from utils.checkpoint import read_weights_file
from utils.errors import ConfigError
from utils.log import logger
from utils.signatures import accepted

_FIXED_BY_SHAPES = (
    "data.n_classes",
    "data.source_channels",
    "data.target_channels",
    "data.instance_edges",
    "generator.scale",
    "generator.output",
    "style.channels",
)
_LEFT_OPEN = ("n_upsamplings", "noise_channels")  # by the shapes of SPADE's and OASIS's generators
_LETTERS: dict[FileRole, tuple[str, ...]] = {  # in names of files, the first preferred; OASIS translates with EMA
    "generator": ("EMA", "G", "G_A", "G_B"),
    "encoder": ("E",),
    "discriminator": ("D", "D_A", "D_B"),
    "projection": ("F",),
}
_DIRECTIONS = {"G_A": "AtoB", "G_B": "BtoA", "D_A": "AtoB", "D_B": "BtoA"}  # D_A judges what G_A makes
_FILE_NAME = re.compile(r"(?P<when>latest|best|(iter_)?(?P<number>\d+))_(net_)?(?P<letter>EMA|[GD](_[AB])?|E|F)\.pth")
_FOLDER_OF_OASIS = "models"  # a folder within that of the run


def original_direction(file: Path) -> str | None:
    """Return the direction of the network in a CycleGAN's file, by its name; None for others."""
    match = _FILE_NAME.fullmatch(file.name)
    return _DIRECTIONS.get(match["letter"]) if match else None


def original_file(folder: Path, role: FileRole, direction: str | None = None) -> Path | None:
    """Return the file of a network in a folder: the latest, or else the best, or else that of the highest number.

    The choice among several is reported. None where there is no such file.

    direction: of a generator, or of what a discriminator judges; None for any, AtoB first.
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
            "taken        %s; not %s: name a file%s to choose it", chosen.name, names, " or --direction" * has_both
        )
    return chosen


def original_network(
    file: Path, state: dict[str, Any], role: FileRole, chosen: Mapping[str, int] | None = None
) -> ImportedNetwork:
    """Return the network whose weights an original's file holds, in float32; chosen as for `import_original`.

    Raises:
        OriginalWeightsError: they are the weights of no network of the originals, or of one of another role.
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
    """The input channels of an original's generator beside its source, which are not named in its file.

    has_instances: whether one of them holds the instance edges. n_features: how many hold instance features.
    features_are_drawn: whether these are sampled from clusters; otherwise they are precomputed maps.
    """

    has_instances: bool = False
    n_features: int = 0
    features_are_drawn: bool = False


SOURCE_ALONE = OriginalInputs()


def original_generator(
    file: Path, state: dict[str, Any], overrides: Sequence[str], inputs: OriginalInputs
) -> tuple[nn.Module, Config]:
    """Return the generator of an original's file, and the settings that follow from its shapes and `overrides`.

    See `load_generator`.
    """

    def read(sizes: Mapping[str, int] | None = None) -> tuple[ImportedNetwork, Config, Config]:
        """Return the network, the settings that follow from its shapes, and these with the overrides."""
        imported = original_network(file, state, "generator", sizes)
        are_maps = inputs.n_features > 0 and not inputs.features_are_drawn
        config = Config(
            run=RunConfig(name=file.stem),
            data=_data_config(file, imported, inputs),
            generator=_generator_config(imported),
            style=_style_config(imported),
            features=FeaturesConfig(n_channels=inputs.n_features, origin="precomputed" if are_maps else "encoded"),
        )
        return imported, config, config_from_dict(config_to_dict(config), str(file), overrides)

    imported, config, chosen = read()
    wanted = {key: getattr(chosen.generator, key) for key in _LEFT_OPEN if key in imported.settings}
    if wanted != {key: imported.settings[key] for key in wanted}:
        imported, config, chosen = read(wanted)
    for key, (fixed, other) in config_differences(config, chosen).items():
        if key in _FIXED_BY_SHAPES:
            n_noise = config.generator.noise_channels
            remedy = f", or change generator.noise_channels={n_noise}" if n_noise and key == "data.n_classes" else ""
            raise ConfigError(
                f"{file}: {key} is {fixed} by the shapes of its weights, not {other}. Remove the override{remedy}."
            )
    if chosen.data.is_stacked:
        folders = ", ".join(chosen.data.source_folder)
        raise ConfigError(f"{file}: takes sources of one folder, data.source_folder names {folders}. Name one of them.")
    return _with_style(file, imported, chosen.style), chosen


def encoder_file(file: Path) -> Path:
    """Return the file in which the originals keep the encoder of a generator's file: latest_net_E.pth."""
    return file.with_name(file.name.replace("_G.", "_E.") if "_G." in file.name else f"E_{file.name}")


def _with_style(file: Path, imported: ImportedNetwork, style: StyleConfig) -> nn.Module:
    """Return a generator, if it has a style with the sides of the settings and the encoder of the file beside its own.

    The weights hold only the number of pixels of the style's map.
    """
    generator = imported.network
    assert isinstance(generator, Generator)
    if "style_channels" not in imported.settings:
        return generator
    stem = generator.get_submodule("stem")
    assert isinstance(stem, StyleStem)
    height, width = style.size
    if height * width != stem.height * stem.width:
        raise ConfigError(
            f"{file}: style.size=[{height},{width}] is {height * width} pixels, its weights have "
            f"{stem.height * stem.width}, for instance [{stem.height},{stem.width}]. Change the override."
        )
    stem.height, stem.width = height, width
    beside = encoder_file(file)
    if not beside.is_file():
        return generator
    found = import_original(read_weights_file(beside))
    encoder, expected = found.network, {key: imported.settings[key] for key in ("style_channels", "base_channels")}
    if not isinstance(encoder, StyleEncoder) or not expected.items() <= found.settings.items():
        raise OriginalWeightsError(f"{beside}: is not the style encoder of {file}. Move it to another folder.")
    return StyleConditionedGenerator(generator, encoder.float())


def _style_config(imported: ImportedNetwork) -> StyleConfig:
    of_file = imported.settings
    if "style_channels" not in of_file:
        return StyleConfig()
    return StyleConfig(channels=of_file["style_channels"], size=[of_file["style_height"], of_file["style_width"]])


def _data_config(file: Path, imported: ImportedNetwork, inputs: OriginalInputs) -> DataConfig:
    """Return the settings of the data: the channels of the source, without edges and features, and of the target."""
    channels = imported.settings["in_channels"] - int(inputs.has_instances) - inputs.n_features
    out_channels = imported.settings["out_channels"]
    if channels < 1 or out_channels not in (1, 3):
        beside = " besides instance edges or features" if inputs.has_instances or inputs.n_features else ""
        raise OriginalWeightsError(
            f"{file}: translates {channels} channels{beside} into {out_channels}. Only label maps, RGB and grey images "
            "can be translated, and only into RGB or grey images."
        )
    is_image = channels in (1, 3)  # any other number are one-hot labels
    return DataConfig(
        layout="paired_folders",
        root=ROOT,
        direction="BtoA" if is_image and original_direction(file) == "BtoA" else "AtoB",
        n_classes=0 if is_image else channels,
        source_channels=channels if is_image else 3,
        target_channels=out_channels,
        instance_edges=inputs.has_instances,
        preprocess="none",
    )


def _generator_config(imported: ImportedNetwork) -> GeneratorConfig:
    names: dict[type, Any] = {network: name for name, network in GENERATORS.items()}
    settings = accepted(GeneratorConfig, imported.settings)
    if spectral_norms(imported.network):
        settings |= {"spectral_norm": True, "spectral_iteration": "v_first"}
    return GeneratorConfig(name=names[FORMATS[imported.scheme].network], **settings)
