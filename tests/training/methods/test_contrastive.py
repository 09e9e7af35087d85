"""Generators of others in trainings by method.name=contrastive."""

from collections.abc import Sequence

import pytest
import torch
from torch import Tensor

from models import GENERATORS
from models.generator import Generator
from models.global_generator import GlobalGenerator
from tests.training.methods.test_outside_mask import ALONE, config
from training.methods.contrastive import build_contrastive
from utils.errors import ConfigError


class Plain(Generator):
    """A generator without features."""

    image_sides = GlobalGenerator.image_sides

    def __init__(self, *, in_channels: int, out_channels: int) -> None:
        super().__init__()
        self.network = GlobalGenerator(
            in_channels=in_channels, out_channels=out_channels, base_channels=4, n_downsamplings=2, n_blocks=2
        )

    def forward(self, source: Tensor) -> Tensor:
        translated: Tensor = self.network(source)
        return translated


class WithFeatures(Plain):
    """The same with features; no GlobalGenerator itself."""

    compared_layers = GlobalGenerator.compared_layers

    def features(self, source: Tensor, taps: Sequence[str]) -> list[Tensor]:
        return self.network.features(source, taps)

    def translate_with_features(self, source: Tensor, taps: Sequence[str]) -> tuple[Tensor, list[Tensor]]:
        return self.network.translate_with_features(source, taps)


def test_a_generator_without_features_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(GENERATORS, "global", Plain)
    with pytest.raises(ConfigError, match=r"generator\.name is global, expected one of"):
        config("contrastive")


def test_a_generator_of_any_class_with_features_is_trained(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(GENERATORS, "global", WithFeatures)
    method = build_contrastive(config("contrastive"), ALONE)
    fake, features = method.generator.network(torch.zeros(1, 3, 16, 16))
    assert fake.shape == (1, 3, 16, 16)
    assert len(features) == 5
