from typing import get_args

import pytest
import torch

from models.blocks import Norm
from models.patch_discriminator import PixelDiscriminator


@pytest.mark.parametrize("norm", get_args(Norm))
def test_each_pixel_is_scored_by_itself(norm: Norm) -> None:
    discriminator = PixelDiscriminator(source_channels=3, base_channels=4, norm=norm).eval()
    source, image = torch.randn(2, 3, 8, 10), torch.randn(2, 3, 8, 10)
    (output,) = discriminator(source, image)
    assert output.logits.shape == (2, 1, 8, 10)
    assert len(output.features) == 2
