"""In tiles and padded, a network of another scale makes of an image what it makes of it at once."""

from pathlib import Path

import pytest
import torch
from torch import nn

from data.batch import Sample
from inference.padding import padded
from inference.tiling import TiledNetwork
from models.global_generator import GlobalGenerator
from models.unet_generator import UnetGenerator
from tests.inference.test_tiling import GLOBAL, LEVEL, lively, picture

SCALES = [0.25, 0.5, 2.0, 4.0]
UNET = {"in_channels": 3, "base_channels": 4, "n_downsamplings": 5}
CASES = [
    *(
        pytest.param(GlobalGenerator(**GLOBAL, scale=scale, upsample=up), 4, scale, id=f"global {up} {scale}")
        for scale in SCALES
        for up in ("transposed", "nearest", "bilinear", "residual")
    ),
    *(
        pytest.param(UnetGenerator(**UNET, norm="instance", scale=scale), 32, scale, id=f"unet {scale}")  # type: ignore[arg-type]
        for scale in SCALES
    ),
    pytest.param(GlobalGenerator(**GLOBAL, norm="batch", scale=4.0), 4, 4.0, id="global batch"),
    pytest.param(GlobalGenerator(**GLOBAL, norm="batch", scale=0.5), 4, 0.5, id="global batch, smaller"),
]


@pytest.mark.parametrize(("network", "multiple", "scale"), CASES)
def test_tiles_give_the_whole_image(network: nn.Module, multiple: int, scale: float, tmp_path: Path) -> None:
    image = picture(multiple * (9 if multiple < 32 else 3), multiple * (13 if multiple < 32 else 4))
    with torch.no_grad():
        whole = lively(network)(image)
    assert list(whole.shape[2:]) == [side * scale for side in image.shape[2:]]
    assert whole.std() > 0.1
    for tile in (multiple, 6 * multiple, 1000 * multiple):
        tiles = TiledNetwork(
            network, tile=tile, size_multiple=multiple, min_size=2 * multiple, folder=tmp_path, scale=scale
        )
        tiled = tiles(lambda window: window.cut(image), *image.shape[-2:])
        assert tiled.shape == whole.shape
        assert (tiled - whole).abs().max() < LEVEL / 10


@pytest.mark.parametrize("scale", [0.5, 4.0])
def test_blended_tiles_differ_little(scale: float, tmp_path: Path) -> None:
    network = lively(GlobalGenerator(**GLOBAL, norm="batch", scale=scale))
    image = picture(96, 128)
    with torch.no_grad():
        whole = network(image)
    tiles = TiledNetwork(
        network, tile=64, size_multiple=4, min_size=8, folder=tmp_path, overlap=32 * int(max(1, scale)), scale=scale
    )
    assert tiles.n_stages == 1
    tiled = tiles(lambda window: window.cut(image), 96, 128)
    assert tiled.shape == whole.shape
    assert (tiled - whole).abs().mean() < 0.1 * whole.std()


@pytest.mark.parametrize("scale", [0.25, 0.5, 1.0, 2.0, 4.0])
@pytest.mark.parametrize(("height", "width"), [(3, 5), (16, 16), (17, 30), (1, 23)])
def test_the_window_holds_the_translation_of_the_sample(scale: float, height: int, width: int) -> None:
    places = torch.arange(height * width, dtype=torch.int32).view(1, height, width)
    larger, window = padded(Sample("x", places, None, None), 8, 16, scale)
    if scale < 1:
        unit = round(1 / scale)
        translated = larger.source[:, ::unit, ::unit]
        assert torch.equal(window.cut(translated), places[:, ::unit, ::unit])
    else:
        translated, wanted = (
            image.repeat_interleave(round(scale), 1).repeat_interleave(round(scale), 2)
            for image in (larger.source, places)
        )
        assert torch.equal(window.cut(translated), wanted)
