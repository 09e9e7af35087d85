"""Benchmark cases: configurations of networks, image sizes, and random batches."""

import os
import tempfile
from dataclasses import dataclass
from pathlib import Path

import torch
from torchvision.models import vgg19

from configs.load import config_from_dict, config_to_dict
from configs.schema import Config
from data.batch import Batch
from losses.perceptual import VGG19
from utils.files import replacing

N_CLASSES = 35
SMALL = ["generator.base_channels=32", "generator.n_downsamplings=2", "generator.n_blocks=4"]
SMALL += ["discriminator.base_channels=32", "loss.perceptual=0", "loss.l1=20"]
SPADE = ["generator.name=spade", "generator.n_upsamplings=6", "generator.spectral_norm=true"]
SPADE += ["discriminator.spectral_norm=inner", "loss.gan_mode=hinge", "loss.over_scales=mean"]
SPADE += ["optimizer.learning_rate=1e-4", "optimizer.discriminator_learning_rate=4e-4"]
SPADE += ["optimizer.betas=[0,0.9]"]

_UNPAIRED = ["generator.n_downsamplings=2", "discriminator.n_scales=1", "discriminator.padding=1", "loss.perceptual=0"]
_UNPAIRED += ["loss.feature_matching=0"]
CYCLE = ["method.name=cycle", *_UNPAIRED]
CUT = ["method.name=contrastive", *_UNPAIRED, "generator.upsample=antialiased", "generator.downsample=antialiased"]


@dataclass(frozen=True)
class Case:
    """A benchmark case. settings: Changes to the settings of the full-size pix2pixHD."""

    name: str
    height: int
    width: int
    batch_size: int = 1
    settings: tuple[str, ...] = ()

    def config(self, *settings: str) -> Config:
        """Return the configuration of this case with additional settings."""
        paired = ["data.layout=paired_folders", f"data.n_classes={N_CLASSES}", "data.instance_edges=true"]
        common = ["data.root=.", "data.preprocess=none"]
        common += ["data.layout=unpaired_folders"] if self.is_unpaired else paired
        use_random_vgg19()
        return config_from_dict(config_to_dict(Config()), self.name, [*common, *self.settings, *settings])

    @property
    def is_unpaired(self) -> bool:
        """Whether the training method uses unpaired images."""
        return any(setting.startswith("method.name=") for setting in self.settings)

    @property
    def family(self) -> str:
        """Suffix of the report's file name: _spade, _unpaired, or an empty string for pix2pixHD."""
        return "_unpaired" if self.is_unpaired else "_spade" * ("generator.name=spade" in self.settings)

    def batch(self, device: torch.device) -> Batch:
        """Return a batch of random labels, instances and photos, or of random photos for both domains."""
        generator = torch.Generator().manual_seed(0)
        size = (self.batch_size, 1, self.height, self.width)
        labels = torch.randint(N_CLASSES, size, dtype=torch.uint8, generator=generator)
        photo = torch.randint(256, (size[0], 3, *size[2:]), dtype=torch.uint8, generator=generator)
        names = tuple(str(number) for number in range(self.batch_size))
        if self.is_unpaired:
            return Batch(names, source=photo.flip(-1), target=photo).to(device)
        return Batch(names, source=labels, instances=labels.int(), target=photo).to(device)


TINY = Case("tiny", 32, 32, batch_size=2, settings=(*SMALL, "generator.base_channels=4"))
"""A case for a quick trial of a benchmark."""


def use_random_vgg19() -> None:
    """Use random weights for VGG19 from a temporary torch cache. Speed does not depend on the weights."""
    os.environ["TORCH_HOME"] = str(Path(tempfile.gettempdir()) / "pairgan_bench_torch")
    if not VGG19.cached.is_file():
        torch.manual_seed(0)
        weights = {f"features.{key}": value for key, value in vgg19().features.state_dict().items()}
        with replacing(VGG19.cached) as path:
            torch.save(weights, path)
