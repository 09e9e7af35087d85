"""Shapes and options of the networks beside pix2pixHD's global generator and discriminator."""

from typing import get_args

import pytest
import torch

from models.blocks import Norm, Padding, Upsample
from models.feature_encoder import FeatureEncoder, average_in_instances
from models.global_generator import GlobalGenerator
from models.local_enhancer import LocalEnhancer
from models.pixel_discriminator import PixelDiscriminator
from models.unet_generator import UnetGenerator


@pytest.mark.parametrize("upsample", get_args(Upsample))
@pytest.mark.parametrize("padding", get_args(Padding))
@pytest.mark.parametrize("norm", get_args(Norm))
def test_every_option_translates_and_trains(upsample: Upsample, padding: Padding, norm: Norm) -> None:
    generator = GlobalGenerator(
        in_channels=5, out_channels=2, base_channels=4, n_downsamplings=2, n_blocks=1,
        upsample=upsample, padding=padding, norm=norm, dropout=True,
    )  # fmt: skip
    output = generator(torch.randn(2, 5, 24, 32))
    assert output.shape == (2, 2, 24, 32)
    assert output.abs().max() <= 1
    output.sum().backward()
    assert all(parameter.grad is not None and parameter.grad.isfinite().all() for parameter in generator.parameters())
    assert [name for name, _ in generator.named_parameters() if name.endswith("bias") and norm == "instance"] in (
        [],
        ["head.1.bias"],
    )


@pytest.mark.parametrize("n_enhancers", [1, 2])
def test_the_local_enhancer_has_as_many_levels_as_wanted(n_enhancers: int) -> None:
    generator = LocalEnhancer(
        in_channels=4, base_channels=2, n_downsamplings=2, n_blocks=1, n_enhancers=n_enhancers, n_enhancer_blocks=1
    )
    assert generator(torch.randn(1, 4, 32, 64)).shape == (1, 3, 32, 64)
    assert generator.trunk.stem[1].out_channels == 2 * 2**n_enhancers


def test_the_full_size_local_enhancer_has_the_originals_parameters() -> None:
    with torch.device("meta"):
        generator = LocalEnhancer(in_channels=36)
    biases = sum(
        module.out_channels
        for name, module in generator.named_modules()
        if isinstance(module, torch.nn.Conv2d | torch.nn.ConvTranspose2d) and name != "head.1"
    )
    assert sum(parameter.numel() for parameter in generator.parameters()) + biases == 182_857_059


@pytest.mark.parametrize(("n_downsamplings", "n_parameters"), [(8, 54_413_955), (7, 41_828_995)])
def test_full_size_unets_have_the_originals_parameters(n_downsamplings: int, n_parameters: int) -> None:
    with torch.device("meta"):
        generator = UnetGenerator(in_channels=3, n_downsamplings=n_downsamplings)
    assert sum(parameter.numel() for parameter in generator.parameters()) == n_parameters


def test_a_unet_needs_five_levels() -> None:
    with pytest.raises(ValueError, match="at least 5 downsamplings, not 4"):
        UnetGenerator(in_channels=3, n_downsamplings=4)


def test_dropout_is_noise_in_training_and_none_in_evaluation() -> None:
    generator = UnetGenerator(in_channels=3, base_channels=2, n_downsamplings=6, norm="instance")
    source = torch.randn(1, 3, 128, 128)
    assert not torch.equal(generator(source), generator(source))
    generator.eval()
    assert torch.equal(generator(source), generator(source))


@pytest.mark.parametrize("norm", get_args(Norm))
def test_the_pixel_discriminator_judges_each_pixel_alone(norm: Norm) -> None:
    discriminator = PixelDiscriminator(source_channels=3, base_channels=4, norm=norm).eval()
    source, image = torch.randn(2, 3, 8, 10), torch.randn(2, 3, 8, 10)
    (judgement,) = discriminator(source, image)
    assert judgement.logits.shape == (2, 1, 8, 10)
    assert len(judgement.features) == 2


def test_features_are_averaged_in_each_instance_of_each_image() -> None:
    features = torch.randn(2, 3, 6, 8)
    instances = torch.randint(0, 4, (2, 1, 6, 8), generator=torch.Generator().manual_seed(0)) * 1000
    averaged = average_in_instances(features, instances)
    for n in range(2):
        for instance in instances[n].unique():
            region = instances[n, 0] == instance
            expected = features[n, :, region].mean(dim=1, keepdim=True).expand(-1, int(region.sum()))
            torch.testing.assert_close(averaged[n, :, region], expected)


def test_the_encoder_learns_through_the_averages() -> None:
    encoder = FeatureEncoder(base_channels=2, n_downsamplings=2)
    instances = torch.zeros(1, 1, 16, 16, dtype=torch.int64)
    instances[..., 8:] = 26001
    features = encoder(torch.randn(1, 3, 16, 16), instances)
    assert features[0, 0].unique().numel() == 2
    features[:, :, :, 0].sum().backward()
    assert all(parameter.grad is not None for parameter in encoder.parameters())
