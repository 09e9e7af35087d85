import pytest
import torch

from models.global_generator import GlobalGenerator
from models.layers import UniformToZeros
from models.local_enhancer import LocalEnhancer

NETWORKS = {"global": GlobalGenerator, "local": LocalEnhancer}


def test_images_of_one_colour_become_zeros_in_evaluation() -> None:
    uniform = torch.tensor([0.3, -0.2]).view(1, 2, 1, 1).expand(1, 2, 4, 5)
    other = uniform.clone()
    other[0, 1, 3, 4] += 1e-6
    undefined = torch.full_like(uniform, float("nan"))
    images = torch.cat([uniform, other, undefined])
    found = UniformToZeros().eval()(images)
    assert torch.equal(found[0], torch.zeros(2, 4, 5))
    assert torch.equal(found[1], other[0])
    assert found[2].isnan().all()
    assert UniformToZeros().train()(images) is images


@pytest.mark.parametrize("name", NETWORKS)
def test_an_image_of_one_colour_is_translated_into_one_colour(name: str) -> None:
    """The norm of its stem makes zeros of it, and not noise of the rounding errors of its convolution."""
    torch.manual_seed(0)
    network = NETWORKS[name](in_channels=3, base_channels=4, n_downsamplings=2, n_blocks=1).eval()
    bias = network.head[1].bias
    assert isinstance(bias, torch.Tensor)
    with torch.no_grad():
        bias.uniform_(-1, 1)
        found = network(torch.rand(2, 3, 1, 1).expand(2, 3, 32, 40))
    assert torch.equal(found, bias.tanh().view(1, 3, 1, 1).expand_as(found))
