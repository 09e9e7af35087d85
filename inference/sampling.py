"""Clusters that instance features are drawn from, the style of an image, and the seeds of all draws."""

import zlib
from dataclasses import replace
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import Tensor

from data.batch import Batch, DataError
from data.files.image_files import read_rgb
from inference.load import LoadedGenerator
from inference.original_weights import encoder_file
from inference.request import Request
from models.instance_features import FILE_NAME, FeatureClusters
from models.latent_inputs import takes_style
from models.style_encoder import SIDE, StyleConditionedGenerator
from utils.checkpoint import CheckpointError, read_weights_file
from utils.errors import ConfigError


def image_seed(seed: int, name: str) -> int:
    """Return the seed of all random draws for one image, independent of the other images of a run."""
    return zlib.crc32(f"{seed}/{name}".encode(errors="surrogateescape"))  # names of files may hold any bytes


def load_clusters(file: Path) -> FeatureClusters:
    """Read feature clusters; raise CheckpointError if the file cannot be read or holds no clusters."""
    if file.suffix == ".npy":
        raise CheckpointError(
            f"{file}: pix2pixHD's clusters are a pickle, which is not safe to read. Create clusters with python -m "
            "tools.cluster_features --checkpoint latest_net_E.pth --config FILE."
        )
    state = read_weights_file(file)
    try:
        return FeatureClusters.from_state(state)
    except ValueError as error:
        raise CheckpointError(f"{file}: {error}") from error


def with_clusters(loaded: LoadedGenerator, request: Request) -> LoadedGenerator:
    """Return the generator with the clusters to draw its instance features from, unless samples provide features.

    Raises:
        CheckpointError, ConfigError: The file of clusters cannot be used, or the generator takes no features.
    """
    n_features = loaded.config.features.n_channels
    if n_features == 0:
        if request.features or request.clusters:
            raise ConfigError(f"{loaded.file}: takes no instance features. Remove --features and --clusters.")
        return loaded
    file = request.clusters or loaded.file.parent / FILE_NAME
    if request.features == "given" or not (request.clusters or request.features or file.is_file()):
        return loaded
    if not file.is_file():
        raise CheckpointError(f"{file}: no such file. Create it with python -m tools.cluster_features.")
    clusters = load_clusters(file)
    if clusters.n_channels != n_features:
        raise CheckpointError(
            f"{file}: has {clusters.n_channels} features, {loaded.file} takes {n_features}. Create clusters for this "
            "generator with python -m tools.cluster_features."
        )
    return replace(loaded, clusters=clusters)


@torch.inference_mode()
def encode_style(loaded: LoadedGenerator, file: Path) -> Tensor:
    """Return the mean style of the image of --style, (1, style_channels) float32 on the CPU.

    The encoder takes 256x256 pixels, so an image of another size is resized with antialiasing.

    Raises:
        ConfigError, DataError: The generator has no style or no encoder, or the image cannot be read.
    """
    network = loaded.generator
    if not takes_style(network):
        raise ConfigError(f"--style: {loaded.file} was trained without a style (style.channels=0). Remove the option.")
    if not isinstance(network, StyleConditionedGenerator):
        name = encoder_file(loaded.file).name
        raise ConfigError(f"--style: {loaded.file} holds no encoder. Put {name} next to it, or use --seed.")
    try:
        image = read_rgb(file)[None]
    except DataError as error:
        raise DataError(f"--style: {error}") from error
    target = loaded.conditioning.target(Batch((file.stem,), source=image, target=image))
    reduced = F.interpolate(target, size=(SIDE, SIDE), mode="bilinear", align_corners=False, antialias=True)
    style: Tensor = network.encoder.eval()(reduced).mean
    return style
