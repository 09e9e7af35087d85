from pathlib import Path

import pytest
import torch
from torch import nn
from torch.nn.utils.parametrize import is_parametrized

from configs.build import build_discriminator
from configs.load import load_config
from models.segmentation_discriminator import SegmentationDiscriminator
from tests.runs import OASIS


@pytest.mark.parametrize("sides", [(64, 64), (8, 16), (9, 23)])
def test_each_pixel_of_an_image_without_its_source_has_logits_of_all_classes_and_one_more(
    sides: tuple[int, int],
) -> None:
    network = SegmentationDiscriminator(n_classes=4, base_channels=2, n_downsamplings=3)
    (output,) = network(None, torch.randn(4, 3, *sides))
    assert output.logits.shape == (4, 5, *sides)
    assert list(output.features) == []


@pytest.mark.parametrize("kind", ["inner", "all"])
def test_spectral_norm_takes_all_convolutions_but_the_last(tiny_config: Path, kind: str) -> None:
    config = load_config(tiny_config, [*OASIS, f"discriminator.spectral_norm={kind}"])
    network = build_discriminator(config)
    normed = {name: is_parametrized(part) for name, part in network.named_modules() if isinstance(part, nn.Conv2d)}
    assert [name for name, is_normed in normed.items() if not is_normed] == (["unet.head"] if kind == "inner" else [])
