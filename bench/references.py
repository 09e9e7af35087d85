"""Plain versions of the original programs' data loader and training updates, as references for benchmarks.

The loader uses Pillow to decode and resize images, and torchvision to convert them to floats in [-1, 1]. It has no
end, because a new epoch would restart its processes. The updates use float32, contiguous memory, unfused Adam and no
compilation. They use this project's networks, so that only the updates are compared.
"""

import random
from collections.abc import Callable, Generator, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import cast

import torch
import torch.nn.functional as F
import torchvision.transforms.functional as TF
from PIL import Image
from torch import Tensor, nn
from torch.optim import Adam
from torch.utils.data import DataLoader, Dataset, RandomSampler

from losses.distances import patch_nce
from losses.perceptual import VGG19Loss
from models.global_generator import GlobalGenerator
from models.layers import InstanceNorm
from models.patch_discriminator import DiscriminatorOutput, MultiscalePatchDiscriminator
from models.patch_projection import PatchProjection, draw_positions

Maps = dict[str, Tensor]
Outputs = list[DiscriminatorOutput]
FORMATS = ("PNG", "JPEG")


class LabelMapFolders(Dataset[Maps]):
    """A data set in pix2pixHD's folders train_label, train_inst and train_img, resized to `width`."""

    def __init__(self, root: Path, width: int) -> None:
        folders = [root / f"train_{kind}" for kind in ("label", "inst", "img")]
        self._samples = list(zip(*(sorted(folder.iterdir()) for folder in folders), strict=True))
        self._width = width

    def __len__(self) -> int:
        return len(self._samples)

    def __getitem__(self, index: int) -> Maps:
        """Return a sample: label (1, H, W) float ids, inst (1, H, W) integer ids, and image (3, H, W) in [-1, 1]."""
        label, instances, photo = (Image.open(path, formats=FORMATS) for path in self._samples[index])
        flips, size = random.random() < 0.5, (self._width, self._width * label.height // label.width)
        return {
            "label": TF.to_tensor(_flipped(label.resize(size, Image.Resampling.NEAREST), flips)) * 255,
            "inst": TF.to_tensor(_flipped(instances.resize(size, Image.Resampling.NEAREST), flips)),
            "image": _normalized(_flipped(photo.convert("RGB").resize(size, Image.Resampling.BICUBIC), flips)),
        }


def reference_batches(dataset: LabelMapFolders, n_workers: int) -> Generator[Maps]:
    """Yield batches of one sample in random order, without end."""
    sampler = RandomSampler(dataset, num_samples=len(dataset) * 10**6)
    yield from DataLoader(dataset, sampler=sampler, num_workers=n_workers)


def _flipped(image: Image.Image, flips: bool) -> Image.Image:
    return image.transpose(Image.Transpose.FLIP_LEFT_RIGHT) if flips else image


def _normalized(image: Image.Image) -> Tensor:
    return TF.normalize(TF.to_tensor(image), [0.5] * 3, [0.5] * 3)


@dataclass
class Networks:
    """Networks and optimizers of an update. vgg: Loss whose network computes the features, or None."""

    generator: nn.Module
    discriminator: nn.Module
    vgg: VGG19Loss | None
    autocast_dtype: torch.dtype | None = None
    learning_rates: tuple[float, float] = (2e-4, 2e-4)
    betas: tuple[float, float] = (0.5, 0.999)

    def __post_init__(self) -> None:
        of_generator, of_discriminator = self.learning_rates
        self.generator_optimizer = _adam(self.generator, rate=of_generator, betas=self.betas)
        self.discriminator_optimizer = _adam(self.discriminator, rate=of_discriminator, betas=self.betas)

    def _autocast(self, device: torch.device) -> torch.autocast:
        return torch.autocast(device.type, dtype=self.autocast_dtype, enabled=self.autocast_dtype is not None)

    def vgg_losses(self, fake: Tensor, target: Tensor) -> dict[str, Tensor]:
        """Return the weighted loss of VGG19's features by name, 0-d, or {} without VGG19."""
        if self.vgg is None:
            return {}
        pairs = zip(self.vgg.features(fake), self.vgg.features(target), self.vgg.layer_weights, strict=True)
        return {"VGG": 10 * _total(weight * F.l1_loss(f, t.detach()) for f, t, weight in pairs)}


@dataclass
class ReferenceUpdate(Networks):
    """pix2pixHD's update, with three discriminator passes on the concatenated source and image.

    As in the original, the generator's loss also computes gradients of the discriminator's weights.
    """

    l1: float = 0.0

    def step(self, source: Tensor, target: Tensor) -> None:
        """Update both networks on a source, (N, C, H, W), and a target, (N, 3, H, W)."""
        discriminator = cast(MultiscalePatchDiscriminator, self.discriminator)
        discriminator.source_channels = 0  # the image below contains the source
        with self._autocast(source.device):
            fake = self.generator(source)
            fake_for_d, real, fake_for_g = (
                discriminator(source, torch.cat([source, image], dim=1)) for image in (fake.detach(), target, fake)
            )
            d_loss = 0.5 * (_lsgan(fake_for_d, 0.0) + _lsgan(real, 1.0))
            losses = [_lsgan(fake_for_g, 1.0), 10 * _feature_matching(fake_for_g, real, averages_layers=True)]
            losses += [*self.vgg_losses(fake, target).values(), self.l1 * F.l1_loss(fake, target)]
        _step(self.generator_optimizer, _total(losses))
        _step(self.discriminator_optimizer, d_loss)


@dataclass
class ReferenceSpadeUpdate(Networks):
    """SPADE's update (Park et al. 2019): the generator steps first.

    The discriminator then steps on new translations from the updated generator. The losses and their weights are the
    same as in a recorded training of the original program.
    """

    learning_rates: tuple[float, float] = (1e-4, 4e-4)
    betas: tuple[float, float] = (0.0, 0.9)

    def step(self, source: Tensor, target: Tensor) -> dict[str, Tensor]:
        """Update both networks on a source, (N, C, H, W), and a target, (N, 3, H, W). Return the losses, 0-d each."""
        with self._autocast(source.device):
            fake = self.generator(source)
            fakes, reals = self._discriminate(source, fake, target)
            matching = 10 * _feature_matching(fakes, reals, averages_layers=False)
            losses = {"GAN": -torch.stack([scale.logits.mean() for scale in fakes]).mean(), "GAN_Feat": matching}
            losses |= self.vgg_losses(fake, target)
        _step(self.generator_optimizer, _total(losses.values()))
        with self._autocast(source.device):
            with torch.no_grad():
                fake = self.generator(source)
            fakes, reals = self._discriminate(source, fake, target)
            of_discriminator = {
                "D_Fake": torch.stack([F.relu(1 + scale.logits).mean() for scale in fakes]).mean(),
                "D_real": torch.stack([F.relu(1 - scale.logits).mean() for scale in reals]).mean(),
            }
        _step(self.discriminator_optimizer, _total(of_discriminator.values()))
        return losses | of_discriminator

    def _discriminate(self, source: Tensor, fake: Tensor, real: Tensor) -> tuple[Outputs, Outputs]:
        """Return the outputs for fake and for real images, from one pass."""
        scales = [scale.chunk(2) for scale in self.discriminator(source, torch.cat([fake, real]))]
        return [fakes for fakes, _ in scales], [reals for _, reals in scales]


@dataclass
class ReferenceContrastiveUpdate:
    """CUT's update. As in the original, both PatchNCE terms encode translations and sources again."""

    generator: GlobalGenerator
    projection: PatchProjection
    discriminator: nn.Module
    taps: Sequence[str] = field(default_factory=lambda: GlobalGenerator.compared_layers(n_downsamplings=2, n_blocks=9))

    def __post_init__(self) -> None:
        self._optimizers = [_adam(network) for network in (self.generator, self.discriminator, self.projection)]

    def step(self, source: Tensor, target: Tensor) -> None:
        """Update the networks on images of both domains, (N, 3, H, W) each."""
        of_generator, of_discriminator, of_projection = self._optimizers
        fake, identity = self.generator(torch.cat([source, target])).chunk(2)
        self.discriminator.requires_grad_(True)
        _step(of_discriminator, _realism(self.discriminator, target, fake))
        self.discriminator.requires_grad_(False)
        contrastive = 0.5 * (self._nce(source, fake) + self._nce(target, identity))
        of_projection.zero_grad()
        _step(of_generator, _lsgan(self.discriminator(fake, fake), 1.0) + contrastive)
        of_projection.step()

    def _nce(self, source: Tensor, translation: Tensor) -> Tensor:
        queries, keys = (self.generator.features(images, self.taps) for images in (translation, source))
        positions = draw_positions(keys, n_patches=256)
        vectors = zip(self.projection(queries, positions), self.projection(keys, positions), strict=True)
        return torch.stack([patch_nce(query, key, n_groups=len(source)) for query, key in vectors]).mean()


@dataclass
class ReferenceCycleUpdate:
    """CycleGAN's update, without its pools."""

    a_to_b: nn.Module
    b_to_a: nn.Module
    of_a: nn.Module
    of_b: nn.Module

    def __post_init__(self) -> None:
        self._optimizers = [_adam(self.a_to_b, self.b_to_a), _adam(self.of_a, self.of_b)]

    def step(self, a: Tensor, b: Tensor) -> None:
        """Update the networks on images of both domains, (N, 3, H, W) each."""
        of_generators, of_discriminators = self._optimizers
        fake_b, fake_a = self.a_to_b(a), self.b_to_a(b)
        cycle = F.l1_loss(self.b_to_a(fake_b), a) + F.l1_loss(self.a_to_b(fake_a), b)
        identity = F.l1_loss(self.a_to_b(b), b) + F.l1_loss(self.b_to_a(a), a)
        discriminators = nn.ModuleList([self.of_a, self.of_b]).requires_grad_(False)
        realism = _lsgan(self.of_b(b, fake_b), 1.0) + _lsgan(self.of_a(a, fake_a), 1.0)
        _step(of_generators, realism + 10 * cycle + 5 * identity)
        discriminators.requires_grad_(True)
        _step(of_discriminators, _realism(self.of_b, b, fake_b) + _realism(self.of_a, a, fake_a))


Reference = ReferenceUpdate | ReferenceSpadeUpdate | ReferenceContrastiveUpdate | ReferenceCycleUpdate
OF_UNPAIRED: dict[str, Callable[..., Reference]] = {
    "contrastive": ReferenceContrastiveUpdate,
    "cycle": ReferenceCycleUpdate,
}
"""Updates for unpaired data by training method. Their arguments are `Method.networks` in order."""


def as_in_the_originals(network: nn.Module) -> nn.Module:
    """Give a network torch's instance norm, CUT's upsampling and contiguous memory, in place. Return it."""
    for name, layer in list(network.named_modules()):
        if isinstance(layer, InstanceNorm):
            network.set_submodule(name, nn.InstanceNorm2d(layer.num_features))
        if isinstance(layer, nn.Upsample):
            network.set_submodule(name, _FilteredUpsampling())
    return network.to(memory_format=torch.contiguous_format)


class _FilteredUpsampling(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        row = x.new_tensor([0.25, 0.75, 0.75, 0.25])
        kernel = (row[:, None] * row).expand(x.shape[1], 1, 4, 4)
        bordered = F.pad(x, (1, 1, 1, 1), mode="replicate")
        return F.conv_transpose2d(bordered, kernel, stride=2, padding=2, groups=x.shape[1])[:, :, 1:-1, 1:-1]


def _realism(discriminator: nn.Module, real: Tensor, fake: Tensor) -> Tensor:
    return 0.5 * (_lsgan(discriminator(real, fake.detach()), 0.0) + _lsgan(discriminator(real, real), 1.0))


def _lsgan(outputs: Outputs, aim: float) -> Tensor:
    return _total(F.mse_loss(scale.logits, torch.full_like(scale.logits, aim)) for scale in outputs)


def _feature_matching(fakes: Outputs, reals: Outputs, *, averages_layers: bool) -> Tensor:
    """Return the L1 distance of features, averaged over scales. Sum the layers, or return 4 times their mean."""
    return _total(
        F.l1_loss(fake, real.detach()) * (4 / len(of_fake.features) if averages_layers else 1) / len(fakes)
        for of_fake, of_real in zip(fakes, reals, strict=True)
        for fake, real in zip(of_fake.features, of_real.features, strict=True)
    )


def _total(losses: Iterable[Tensor]) -> Tensor:
    return torch.stack([*losses]).sum()


def _adam(*networks: nn.Module, rate: float = 2e-4, betas: tuple[float, float] = (0.5, 0.999)) -> Adam:
    parameters = [parameter for network in networks for parameter in network.parameters()]
    return Adam(parameters, lr=rate, betas=betas, foreach=False, fused=False)


def _step(optimizer: Adam, loss: Tensor) -> None:
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
