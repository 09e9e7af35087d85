"""Clusters that instance features are drawn from, seeds, and the style of an image."""

import zlib
from dataclasses import dataclass
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import Tensor

from data.batch import Batch, DataError
from data.files.image_files import read_rgb
from inference.load import LoadedGenerator
from inference.original_weights import encoder_file
from models.instance_features import FeatureClusters
from models.latent_inputs import takes_style
from models.style_encoder import SIDE, StyleConditionedGenerator
from utils.checkpoint import CheckpointError, read_weights_file
from utils.errors import ConfigError


def image_seed(seed: int, name: str) -> int:
    """Return the seed of all random draws for one image, independent of the other images of a run."""
    return zlib.crc32(f"{seed}/{name}".encode(errors="surrogateescape"))  # names of files may hold any bytes


def load_clusters(file: Path) -> FeatureClusters:
    """Read feature clusters.

    Raises:
        CheckpointError: the file cannot be read, or holds no clusters.
    """
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


@dataclass(frozen=True)
class StyleImage:
    """An image and its style, (1, style_channels) float32 on the CPU."""

    file: Path
    style: Tensor


@torch.inference_mode()
def encode_style(loaded: LoadedGenerator, file: Path | None) -> StyleImage | None:
    """Return the mean of an image's styles, in float32; None without a file.

    The encoder sees 256x256 pixels, to which an image of any size is reduced with antialiasing.

    Raises:
        ConfigError: the generator has no style, or no encoder.
        DataError: the image cannot be read.
    """
    if file is None:
        return None
    network = loaded.generator
    if not takes_style(network):
        raise ConfigError(f"--style: {loaded.file} was trained without a style (style.channels=0). Remove the option.")
    if not isinstance(network, StyleConditionedGenerator):
        beside = encoder_file(loaded.file)
        raise ConfigError(f"--style: {loaded.file} holds no encoder. Put {beside.name} beside it, or use --seed.")
    try:
        image = read_rgb(file)[None]
    except DataError as error:
        raise DataError(f"--style: {error}") from error
    target = loaded.conditioning.target(Batch((file.stem,), source=image, target=image))
    reduced = F.interpolate(target, size=(SIDE, SIDE), mode="bilinear", align_corners=False, antialias=True)
    return StyleImage(file, network.encoder.eval()(reduced).mean)
