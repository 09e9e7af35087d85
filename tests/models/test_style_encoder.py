import pytest
import torch

from models.latent_inputs import choose_style, takes_style
from models.spade_generator import SpadeGenerator
from models.style_encoder import StyleConditionedGenerator, StyledImages, StyleEncoder, inference_network


def make_generator() -> SpadeGenerator:
    torch.manual_seed(0)
    network = SpadeGenerator(in_channels=3, base_channels=4, n_upsamplings=3, hidden_channels=4, style_channels=5)
    return network.double()


@pytest.mark.parametrize("size", [(256, 256), (64, 96), (1, 300), (512, 256)])
def test_images_of_any_size_have_a_style(size: tuple[int, int]) -> None:
    encoder = StyleEncoder(style_channels=7, base_channels=2)
    style = encoder(torch.randn(2, 3, *size))
    assert style.mean.shape == style.log_variance.shape == (2, 7)


def test_each_pass_of_training_draws_another_style_and_evaluation_takes_the_mean() -> None:
    network = StyleConditionedGenerator(make_generator(), StyleEncoder(style_channels=5, base_channels=2).double())
    source, image = torch.randn(2, 3, 16, 16).double(), torch.randn(2, 3, 16, 16).double()
    first, second = network(source, image), network(source, image)
    assert isinstance(first, StyledImages)
    assert not torch.equal(first.images, second.images)
    torch.testing.assert_close(first.style, second.style, rtol=0, atol=0)
    network.eval()
    mean = network.encoder(image).mean
    assert torch.equal(network(source, image).images, network.generator(source, mean))
    assert inference_network(network) is network.generator
    assert inference_network(network.generator) is network.generator


def test_the_style_is_zero_before_one_is_chosen() -> None:
    network, source = make_generator().eval(), torch.randn(1, 3, 16, 16).double()
    undrawn = network(source)
    assert torch.equal(undrawn, network(source, torch.zeros(1, 5)))
    style = torch.ones(1, 5)
    choose_style(network, style)
    assert torch.equal(network(source), network(source, style))
    assert takes_style(network)
    assert not takes_style(SpadeGenerator(in_channels=3, base_channels=2, hidden_channels=2))
    assert "stem.weight" in network.state_dict()
    assert not any("drawn" in name for name in network.state_dict())
