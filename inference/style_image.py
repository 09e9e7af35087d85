"""The style of --style IMAGE, in place of one drawn by --seed."""

from dataclasses import dataclass
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import Tensor

from configs import build
from data.batch import Batch, DataError
from data.files.image_files import read_rgb
from inference.load import LoadedGenerator
from inference.original_weights import encoder_file
from models.latent_inputs import takes_style
from models.style_encoder import SIDE, StyleConditionedGenerator
from utils.errors import ConfigError


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
    target = build.build_conditioning(loaded.config).target(Batch((file.stem,), image, None, image))
    reduced = F.interpolate(target, size=(SIDE, SIDE), mode="bilinear", align_corners=False, antialias=True)
    return StyleImage(file, network.encoder.eval()(reduced).mean)
