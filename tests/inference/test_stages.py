"""Networks are cut at their norms, whose statistics come from parts of an image."""

import pytest
import torch
from torch import nn

from inference.stages import WholeImageNorm, cut_at_norms


def test_statistics_of_parts_are_those_of_the_whole() -> None:
    image = torch.randn(1, 5, 8, 12) * 3 + 1000  # far from 0, where a sum of squares would lose its digits
    norm = WholeImageNorm(1e-5)
    for part in image.split(5, dim=-1):
        norm.add(part)
    assert torch.allclose(norm(image), nn.InstanceNorm2d(5)(image), atol=1e-3)


def test_an_unknown_layer_is_refused() -> None:
    with pytest.raises(AssertionError, match="MaxPool2d: unknown reach"):
        cut_at_norms(nn.Sequential(nn.MaxPool2d(2)), at_batch_norms=True)
