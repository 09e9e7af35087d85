"""Networks are cut at their norms, whose statistics come from parts of an image."""

from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from inference.segments import NotInTilesError, WholeImageNorm, cut_at_norms
from models.spade_generator import SpadeGenerator


def test_statistics_of_parts_are_those_of_the_whole() -> None:
    image = torch.randn(1, 5, 8, 12) * 3 + 1000  # far from 0, where a sum of squares would lose its digits
    norm = WholeImageNorm(1e-5)
    for part in image.split(5, dim=-1):
        norm.add(part)
    assert torch.allclose(norm(image), nn.InstanceNorm2d(5)(image), atol=1e-3)


class Scaled(nn.Module):
    """A convolution and a function."""

    def __init__(self, function: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.convolution = nn.Conv2d(3, 3, 1)
        self.weight = nn.Parameter(torch.ones(1))
        self.function = function

    def forward(self, x: Tensor) -> Tensor:
        return self.function(self.convolution(x))


class OwnWeight(Scaled):
    def forward(self, x: Tensor) -> Tensor:
        return self.convolution(x) * self.weight


@pytest.mark.parametrize(
    ("network", "reason"),
    [
        (nn.Sequential(nn.Conv2d(3, 3, 1), nn.AdaptiveAvgPool2d(1)), r"its layer 1 \(AdaptiveAvgPool2d\) may"),
        (nn.Sequential(nn.InstanceNorm2d(3, affine=True)), r"its layer 0 \(InstanceNorm2d\) may"),
        (nn.Sequential(nn.Upsample(scale_factor=2, mode="bicubic")), r"its layer 0 \(Upsample\) may"),
        (Scaled(lambda x: x - x.mean((2, 3))), "mean may need more of the image than a tile"),
        (Scaled(lambda x: F.interpolate(x, size=x.shape[2:])), "getattr may need"),
        (Scaled(lambda x: x if x.sum() > 0 else -x), r"its layers depend on the image \(.*control flow\)"),
        (OwnWeight(lambda x: x), "weight may need"),
        (SpadeGenerator(in_channels=3, base_channels=4, style_channels=3), "it has a second input, style"),
    ],
)
def test_what_may_need_more_than_a_tile_is_refused_in_one_line(network: nn.Module, reason: str) -> None:
    with pytest.raises(
        NotInTilesError, match=rf"^--tile: {type(network).__name__} cannot be .*: {reason}.*\. Omit --tile\.$"
    ):
        cut_at_norms(network)


@pytest.mark.parametrize("layer", [nn.SiLU(), nn.GELU(), nn.PReLU(3), nn.Mish()])
def test_functions_of_single_pixels_reach_no_other(layer: nn.Module) -> None:
    networks: list[nn.Module] = [nn.Sequential(layer)]
    if not isinstance(layer, nn.PReLU):  # the function takes a weight
        networks.append(Scaled(getattr(F, type(layer).__name__.lower())))
    for network in networks:
        (segment,) = cut_at_norms(network)
        assert segment.reach == 0


def test_a_dilated_convolution_reaches_farther() -> None:
    network = nn.Sequential(nn.Conv2d(3, 3, 3, dilation=4, padding=4))
    assert cut_at_norms(network)[0].reach == 4
