"""Convolutions with channels of zeros have the values and gradients of plain ones."""

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from bench.padded_channels import conv2d


@pytest.mark.parametrize(("n_in", "n_out", "has_bias"), [(36, 64, True), (39, 3, True), (3, 5, False), (16, 8, True)])
def test_padded_channels_change_neither_values_nor_gradients(n_in: int, n_out: int, has_bias: bool) -> None:
    torch.manual_seed(0)
    images = torch.randn(2, n_in, 9, 11, dtype=torch.float64, requires_grad=True)
    weight = torch.randn(n_out, n_in, 4, 4, dtype=torch.float64, requires_grad=True)
    bias = torch.randn(n_out, dtype=torch.float64, requires_grad=True) if has_bias else None
    given = [one for one in (images, weight, bias) if one is not None]

    def result_and_gradients(made: Tensor) -> list[Tensor]:
        return [made, *torch.autograd.grad(made.square().sum(), given)]

    plain = result_and_gradients(F.conv2d(images, weight, bias, stride=2, padding=1))
    padded = result_and_gradients(conv2d(images, weight, bias, stride=2, padding=1))
    for found, expected in zip(padded, plain, strict=True):
        assert found.shape == expected.shape
        torch.testing.assert_close(found, expected, rtol=1e-12, atol=1e-12)


def test_groups_of_channels_stay_as_they_are() -> None:
    images, kernel = torch.randn(1, 3, 8, 8), torch.randn(3, 1, 3, 3)
    assert torch.equal(conv2d(images, kernel, groups=3, stride=2), F.conv2d(images, kernel, groups=3, stride=2))
