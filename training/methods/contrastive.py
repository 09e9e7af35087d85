"""Training without pairs in one direction: patches of translations resemble those of the sources (CUT, FastCUT)."""

from copy import deepcopy
from dataclasses import dataclass

import torch
from torch import nn

from configs import build
from configs.image_sides import image_sides
from configs.schema import Config
from data.batch import Batch
from models.global_generator import GlobalGenerator
from models.initialization import initialize
from models.patch_projection import PatchProjection
from training.diagnostics import Diagnostics
from training.methods.contrastive_update import ContrastiveUpdate, TappedGenerator
from training.methods.method import NetworkBuilder
from training.methods.unpaired import Unpaired, build_judge, translators
from utils.distributed import World
from utils.errors import ConfigError


@dataclass
class Contrastive(Unpaired):
    """A generator, the discriminator of the target side, and the projection of the generator's features."""

    update: ContrastiveUpdate

    def __post_init__(self) -> None:
        super().__post_init__()
        update = self.update
        self.networks = {
            "generator": update.generator,
            "discriminator": update.discriminator.trained,
            "projection": update.projection,
        }

    @torch.no_grad()
    def pass_once(self, batch: Batch) -> None:
        """Translate a batch on the device, discriminate the translations and project the features."""
        networks, taps = self.networks, self.update.contrastive.taps
        with self.precision.autocast():
            fake, features = TappedGenerator(networks["generator"].compute_copy, taps)(self.pair(batch).source)
            networks["discriminator"].compute_copy(fake[:, :0], fake)
            networks["projection"].compute_copy(
                features, [torch.zeros(1, dtype=torch.long, device=self.device)] * len(features)
            )


def build_projection(config: Config, generator: nn.Module) -> PatchProjection:
    """Return what projects the features of a generator at contrastive.taps, with random weights.

    Raises:
        ConfigError: the generator has no such layer.
    """
    assert isinstance(generator, GlobalGenerator), type(generator)
    settings, side = config.contrastive, 4 * image_sides(config).minimum
    images = torch.empty(1, config.data.source_channels, side, side, device="meta")
    try:
        features = deepcopy(generator).to("meta").features(images, settings.taps)
    except KeyError as error:
        raise ConfigError(f"contrastive.taps: {error.args[0]}") from error
    projection = PatchProjection([feature.shape[1] for feature in features], channels=settings.channels)
    initialize(projection, config.init.distribution, config.init.gain, zero_biases=True)
    return projection


def build_contrastive(config: Config, world: World) -> Contrastive:
    """Return networks, optimizers and losses with initial weights, on the device of `world`.

    Raises:
        ConfigError: the generator has no layer that contrastive.taps names.
    """
    torch.manual_seed(config.run.seed)
    builder, settings = NetworkBuilder(config, world, torch.channels_last), config.contrastive
    modules = build.build_generator(config), build.build_discriminator(config)
    projection_module = build_projection(config, modules[0])
    torch.manual_seed(config.run.seed + world.rank)  # patches differ by process
    generator = builder.network(modules[0], "generator", lambda network: TappedGenerator(network, settings.taps))
    projection = builder.network(projection_module, "projection")
    judge = build_judge(config, builder, modules[1])
    update = ContrastiveUpdate(
        generator=generator,
        discriminator=judge,
        projection=projection,
        optimizers={
            "generator": builder.group({"generator": generator, "projection": projection}),
            "discriminator": builder.group({"discriminator": judge.trained}),
        },
        contrastive=settings,
        adversarial_weight=config.loss.adversarial,
        outside_weight=config.loss.outside_mask,
        precision=builder.precision,
        shares_encoder=config.generator.norm == "instance" and not config.generator.dropout,
        means=judge.means,
    )
    return Contrastive(Diagnostics(config.loss.gan_mode), translators(config), update)
