"""The names that a configuration may choose are the keys of the registries, and what these take are settings."""

from collections.abc import Mapping
from pathlib import Path
from typing import get_args, get_type_hints

import pytest
import torch

from configs.build import build_generator_objective
from configs.load import load_config
from configs.rules import unused_settings
from configs.schema import DataConfig, LossConfig, MethodConfig
from data import LAYOUTS
from losses import ADVERSARIAL_LOSSES, GENERATOR_LOSSES, PENALTIES
from tests.runs import OASIS
from training.methods import METHODS

UNET = ["generator.name=unet", "generator.n_downsamplings=6"]


@pytest.mark.parametrize(
    ("registry", "section", "key"),
    [(LAYOUTS, DataConfig, "layout"), (ADVERSARIAL_LOSSES, LossConfig, "gan_mode"), (METHODS, MethodConfig, "name")],
)
def test_names_are_the_choices(registry: Mapping[str, object], section: type, key: str) -> None:
    assert list(registry) == list(get_args(get_type_hints(section)[key]))


def test_names_of_losses_are_settings() -> None:
    assert list(GENERATOR_LOSSES) == list(LossConfig().weights)
    assert set(PENALTIES) == set(LossConfig().penalties)


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ([], {"adversarial": 1, "l1": 2}),
        (["generator.name=spade", "style.channels=4"], {"adversarial": 1, "l1": 2, "kl_divergence": 0.05}),
        (["generator.name=spade", "style.channels=4", "loss.kl_divergence=0"], {"adversarial": 1, "l1": 2}),
    ],
)
def test_a_loss_of_weight_0_is_not_made(tiny_config: Path, settings: list[str], expected: dict[str, float]) -> None:
    config = load_config(tiny_config, ["loss.feature_matching=0", "loss.perceptual=0", "loss.l1=2", *settings])
    objective = build_generator_objective(config, torch.device("cpu"))
    weights = {name: weight for name, (_, weight) in objective.losses.items()}
    assert (list(weights), weights) == (list(expected), expected)


PAIRS = ["data.layout=paired_folders", "data.root=x", "data.instance_edges=false"]
VOLUMES = [*PAIRS, "data.layout=paired_volumes", "data.source_channels=1", "data.target_channels=1"]
OF_VOLUMES = ["data.direction=BtoA", "data.mask_folder=m", "data.axis=all", "data.neighbours=1"]
STACK = [*PAIRS, "data.source_folder=[a,b]", "data.source_channels=4"]
ALONE = [name for name in GENERATOR_LOSSES if name not in ("perceptual", "kl_divergence", "outside_mask")]


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        (["generator.n_enhancers=2"], ["generator.n_enhancers=2"]),
        (["generator.name=unet", "generator.n_downsamplings=6", "generator.skips=half"], ["generator.skips=half"]),
        (["generator.name=spade", "generator.n_blocks=3", "generator.hidden_channels=8"], ["generator.n_blocks=3"]),
        ([*UNET, *PAIRS, "generator.scale=0.5", "generator.skips=full"], ["generator.skips=full"]),
        ([*PAIRS, "generator.skips=half", "generator.n_downsamplings=2", "generator.scale=0.5"], []),
        (["generator.spectral_iteration=v_first"], ["generator.spectral_iteration=v_first"]),
        (["discriminator.name=pixel", "discriminator.n_scales=3"], ["discriminator.n_scales=3"]),
        (["discriminator.name=pixel", "loss.over_scales=mean"], ["loss.over_scales=mean"]),
        (["discriminator.n_scales=1", "loss.over_scales=mean"], ["loss.over_scales=mean"]),
        (
            ["discriminator.name=projected", "discriminator.norm=batch", "loss.over_scales=mean"],
            ["discriminator.norm=batch"],
        ),
        (["loss.labelmix=10"], ["loss.labelmix=10.0"]),
        (
            [*OASIS, "loss.over_scales=mean", "discriminator.n_layers=4"],
            ["discriminator.n_layers=4", "loss.over_scales=mean"],
        ),
        (["style.size=[4,4]", "loss.kl_divergence=1"], ["style.size=[4, 4]", "loss.kl_divergence=1.0"]),
        (["generator.name=spade", "style.channels=4", "style.size=[4,4]", "loss.kl_divergence=1"], []),
        ([*PAIRS, "data.target_files=uint16.png"], ["data.target_files=uint16.png"]),
        ([*PAIRS, "data.target_files=uint16.png", "data.target_channels=4"], []),
        ([*VOLUMES, "data.source_folder=a", "data.target_folder=b", *OF_VOLUMES], []),
        ([*PAIRS, *OF_VOLUMES], ["data.mask_folder=m", "data.axis=all", "data.neighbours=1"]),
    ],
)
def test_settings_that_nothing_chosen_takes_are_without_effect(
    tiny_config: Path, settings: list[str], expected: list[str]
) -> None:
    config = load_config(tiny_config, ["data.preprocess=none", *settings])
    chosen = {setting.split("=")[0] for setting in settings}
    assert [key for key in unused_settings(config) if key.split("=")[0] in chosen] == expected
