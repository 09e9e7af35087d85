"""A fast method of 1x1 convolutions, which shows what a method must define."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from configs import build
from configs.load import load_config
from configs.schema import Config
from data.batch import Batch
from metrics.evaluator import Evaluator
from models.spectral_norm import add_spectral_norm
from training.methods import METHODS
from training.methods.builder import MethodBuilder
from training.methods.method import Averages, Method, Translator
from training.optimizer_group import RunningMeans
from training.run import Training, build_training
from training.validation import Validation
from utils.distributed import World

Build = Callable[..., Training]


class FakeMethod(Method):
    """Trains one convolution towards the targets, and another, with the role of a discriminator, towards zero."""

    progress = "l1"

    def __init__(self, config: Config, world: World) -> None:
        torch.manual_seed(config.run.seed)
        builder, facts = MethodBuilder(config, world), build.data_facts(config)
        painter: nn.Module = nn.Conv2d(facts.conditioning.channels, 3, 1)
        if config.generator.spectral_norm:
            add_spectral_norm(painter)
        self.networks = {
            "painter": builder.network(painter, "generator"),
            "critic": builder.network(nn.Sequential(nn.Conv2d(3, 1, 1), nn.Conv2d(1, 1, 1)), "discriminator"),
        }
        self.optimizers = {f"group of {name}": builder.group({name: one}) for name, one in self.networks.items()}
        self.translators = {"AtoB": Translator("painter", facts)}
        self.precision, self.means = builder.common["precision"], RunningMeans()
        self.discriminator_objective = builder.common["discriminator_objective"]

    def inputs(self, batch: Batch) -> Batch:
        return batch

    def update(self, groups: Sequence[Sequence[Batch]]) -> None:
        losses = self.losses(groups[-1][-1])
        self.means.add(dict(zip(self.networks, losses, strict=True)), "loss/")
        for loss, group in zip(losses, self.optimizers.values(), strict=True):
            group.backward(loss)
            group.step("group", RunningMeans())

    def losses(self, batch: Batch) -> tuple[Tensor, Tensor]:
        target = self.conditioning.target(batch)
        painted = self.networks["painter"].network(self.conditioning(batch))
        return (painted - target).abs().mean(), self.networks["critic"].network(target).abs().mean()

    def build_validation(self, averages: Averages, of_sources: Evaluator, **shared: Any) -> Validation:
        return Validation(predictor=self.predictor(averages), logits=None, n_shown=0, **shared)


@pytest.fixture
def build_fake(tiny_config: Path, monkeypatch: pytest.MonkeyPatch) -> Build:
    """Build the tiny run with `FakeMethod` and other settings."""
    monkeypatch.setitem(METHODS, "paired", FakeMethod)

    def built(*settings: str) -> Training:
        return build_training(load_config(tiny_config, settings), World(0, 1, torch.device("cpu")))

    return built
