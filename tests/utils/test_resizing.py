from typing import Literal

import pytest
import torch
from torchvision.transforms.v2 import InterpolationMode
from torchvision.transforms.v2.functional import resize as resize_as_torchvision

from utils.resizing import resize


@pytest.mark.parametrize("mode", ["bilinear", "bicubic"])
@pytest.mark.parametrize("dtype", [torch.uint8, torch.float32])
@pytest.mark.parametrize("size", [(7, 40), (33, 20), (33, 41), (64, 90)])
@pytest.mark.parametrize("channels_last", [False, True])
def test_it_resizes_as_torchvision_does(
    mode: Literal["bilinear", "bicubic"], dtype: torch.dtype, size: tuple[int, int], channels_last: bool
) -> None:
    image = torch.randint(256, (33, 41, 3), dtype=torch.uint8).to(dtype).permute(2, 0, 1)
    image = image if channels_last else image.contiguous()
    wanted = resize_as_torchvision(image, [*size], interpolation=InterpolationMode(mode), antialias=True)
    found = resize(image, *size, mode)
    assert torch.equal(found, wanted)
    assert found.stride() == wanted.stride()
