import pytest
import torch

from models import GENERATORS
from models.layers import ReflectionPadding, reflect


@pytest.mark.parametrize("padding", [1, 3])
def test_slices_give_the_values_and_gradients_of_torchs_padding(padding: int) -> None:
    x = torch.randn(2, 3, 5, 7, dtype=torch.float64, requires_grad=True)
    expected, found = ReflectionPadding(padding)(x), reflect(x, padding)
    assert torch.equal(found, expected)
    weights = torch.randn_like(expected)
    gradients = [torch.autograd.grad((y * weights).sum(), x)[0] for y in (expected, found)]
    torch.testing.assert_close(*gradients, rtol=1e-14, atol=1e-14)


@pytest.mark.parametrize("name", ["global", "local"])
def test_the_generators_pad_with_it(name: str) -> None:
    network = GENERATORS[name](in_channels=3, out_channels=3, base_channels=2, n_downsamplings=1, n_blocks=1)
    paddings = [module for module in network.modules() if isinstance(module, torch.nn.ReflectionPad2d)]
    assert paddings
    assert all(type(module) is ReflectionPadding for module in paddings)
