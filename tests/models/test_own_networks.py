"""Generators and discriminators of the calling program, from registration to an exported file."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import models
from configs import build
from configs.load import load_config
from models import BUILT_IN, DISCRIMINATORS, GENERATORS, register_discriminator, register_generator
from models.generator import Generator, ImageSides
from models.patch_discriminator import Discriminator, DiscriminatorOutput
from tests.runs import run
from training.loaded_run import load
from utils.errors import ConfigError, UserError


@pytest.fixture(autouse=True)
def no_own_networks() -> Iterator[None]:
    yield
    forget()


def forget() -> None:
    for registry, kind in ((GENERATORS, "generator"), (DISCRIMINATORS, "discriminator")):
        for name in registry.keys() - BUILT_IN[kind]:
            del registry[name]


class Plain(Generator):
    def __init__(self, *, in_channels: int, out_channels: int, base_channels: int, slope: float = 0.1) -> None:
        super().__init__()
        self.first = nn.Conv2d(in_channels, base_channels, 3, padding=1)
        self.last = nn.Conv2d(base_channels, out_channels, 3, padding=1)

    @staticmethod
    def image_sides() -> ImageSides:
        return ImageSides(multiple=2, minimum=8)

    def forward(self, source: Tensor) -> Tensor:
        return torch.tanh(self.last(torch.relu(self.first(source))))


class Larger(Plain):
    def forward(self, source: Tensor) -> Tensor:
        return nn.functional.interpolate(super().forward(source), scale_factor=2)


class Sideless(Plain):
    @staticmethod
    def image_sides() -> Any:
        return 8


class ReadingValues(Plain):
    def __init__(self, *, in_channels: int, out_channels: int, base_channels: int) -> None:
        super().__init__(in_channels=in_channels, out_channels=out_channels, base_channels=base_channels)
        self.largest = self.first.weight.abs().max().item()


class Judge(Discriminator):
    def __init__(self, *, source_channels: int, image_channels: int, base_channels: int) -> None:
        super().__init__()
        self.first = nn.Conv2d(source_channels + image_channels, base_channels, 4, stride=2, padding=1)
        self.last = nn.Conv2d(base_channels, 1, 4, padding=1)

    @staticmethod
    def least_side() -> int:
        return 8

    def repeated(self, source: Tensor, n_images: int) -> Tensor:
        return source.repeat(n_images // len(source), 1, 1, 1)

    def forward(self, source: Tensor, image: Tensor) -> Any:
        features = torch.relu(self.first(torch.cat([self.repeated(source, len(image)), image], dim=1)))
        return [DiscriminatorOutput([features], self.last(features))]


class Interleaved(Judge):
    def repeated(self, source: Tensor, n_images: int) -> Tensor:
        return source.repeat_interleave(n_images // len(source), 0)


class Flat(Judge):
    def forward(self, source: Tensor, image: Tensor) -> Any:
        return [DiscriminatorOutput([], super().forward(source, image)[0].logits.mean((1, 2, 3)))]


OWN = ["generator.name=plain", "discriminator.name=judge"]


def test_own_networks_train_and_are_needed_to_load_the_run(tiny_config: Path) -> None:
    register_generator("plain", Plain)
    register_discriminator("judge", Judge)
    run(tiny_config, *OWN, "train.max_steps=1")
    folder = tiny_config.parent / "runs" / "tiny"
    assert isinstance(load(folder, device="cpu").networks["discriminator"], Judge)
    forget()
    for use in (lambda: run(tiny_config, *OWN, "train.max_steps=2"), lambda: load(folder, device="cpu")):
        with pytest.raises(UserError, match=r"plain, expected .* register_generator"):
            use()


@pytest.mark.parametrize(
    ("network", "message"),
    [(Interleaved, r"4 images .* source i % 2"), (Flat, r"returns a tensor of shape \(4,\)\. Return \(4, C, H, W\)")],
)
def test_a_discriminator_that_breaks_the_contract_is_an_error_of_one_line(
    tiny_config: Path, network: type[Discriminator], message: str
) -> None:
    register_discriminator("judge", network)
    with pytest.raises(ConfigError, match=message) as error:
        build.build_discriminator(load_config(tiny_config, OWN[1:]))
    assert str(error.value).startswith("discriminator.name=judge: ")
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("network", "message"),
    [
        (Larger, r"generator\.name=plain: .* \(1, 3, 16, 16\)\. Return .*8, 8\)"),
        (Sideless, r"Sideless\.image_sides: returns 8\. Return an ImageSides"),
        (ReadingValues, r"generator\.name=plain: cannot be built on the meta device"),
    ],
)
def test_a_generator_that_breaks_the_contract_is_an_error_of_one_line(
    tiny_config: Path, network: type[Generator], message: str
) -> None:
    register_generator("plain", network)
    with pytest.raises(ConfigError, match=f"^{message}") as error:
        build.build_generator(load_config(tiny_config, OWN[:1]))
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("name", "network"),
    [
        ("global", Plain),
        ("my net", Plain),
        ("plain", nn.Conv2d),
        ("plain", type("Open", (Generator,), {"__init__": lambda self, *, in_channels: None})),
    ],
)
def test_unusable_generators_are_not_registered(name: str, network: Any) -> None:
    with pytest.raises(ConfigError, match=f"^generator '{name}': "):
        models.register_generator(name, network)
    assert GENERATORS.keys() == BUILT_IN["generator"]
