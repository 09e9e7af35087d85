"""A network in tiles gives the same output as the network for the whole image."""

import errno
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn.utils import parametrize

from inference.tiling import TiledNetwork, Window
from models.global_generator import GlobalGenerator, LocalEnhancer
from models.latent_inputs import draw_latents
from models.spade_generator import SpadeGenerator
from models.spectral_norm import add_spectral_norm
from models.unet_generator import UnetGenerator
from utils.device import Precision
from utils.mapped_memory import mapped_array

LEVEL = 2 / 255  # a level of 8 bits in the range [-1, 1]

GLOBAL: dict[str, Any] = {"in_channels": 3, "base_channels": 4, "n_downsamplings": 2, "n_blocks": 2}
SPADE: dict[str, Any] = {"in_channels": 3, "base_channels": 4, "n_upsamplings": 3, "hidden_channels": 6}


def unet(**options: Any) -> UnetGenerator:
    return UnetGenerator(in_channels=3, base_channels=4, n_downsamplings=5, **options)


def global_net(**options: Any) -> GlobalGenerator:
    return GlobalGenerator(**GLOBAL, **options)


CASES = {  # networks, the numbers that must divide sides, and the scales of the output
    "transposed": (global_net(upsample="transposed"), 4, 1),
    "bilinear, quarter": (global_net(upsample="bilinear", scale=0.25), 4, 0.25),
    "residual, double": (global_net(upsample="residual", scale=2.0, dropout=True), 4, 2),
    "antialiased, batch": (global_net(downsample="antialiased", biased_downs=True, norm="batch"), 4, 1),
    "half skips, half": (global_net(skips="half", scale=0.5), 4, 0.5),
    "local, two enhancers": (LocalEnhancer(**GLOBAL, n_enhancers=2, upsample="nearest"), 16, 1),
    "unet, double": (unet(norm="instance", scale=2.0), 32, 2),
    "spade of image and map": (SpadeGenerator(**SPADE, n_image_channels=2, noise_channels=2), 8, 1),
    "spade, batch": (add_spectral_norm(SpadeGenerator(**SPADE, norm="batch")), 8, 1),
}


def lively(network: nn.Module) -> nn.Module:
    """Give a network weights that keep the scale, so that its output uses all levels, and trained statistics."""
    torch.manual_seed(0)
    for parameter in network.parameters():
        if parameter.dim() > 1:
            nn.init.normal_(parameter, 0, (2 / parameter[0].numel()) ** 0.5)
    for module in network.train().modules():  # iterate until spectral norm has forgotten its random start
        if parametrize.is_parametrized(module, "weight"):
            for _ in range(100):
                _ = module.weight
    draw_latents(network, [0])
    network.eval()
    batch_norms = [module for module in network.modules() if isinstance(module, nn.BatchNorm2d)]
    for module in batch_norms:
        module.momentum = None  # the average of all batches
        module.train()
    with torch.no_grad():
        network(picture(96, 128))
    return network.eval()


def picture(height: int, width: int) -> Tensor:
    """Return noise that gets brighter and stronger to the right, so that tiles differ in their statistics."""
    torch.manual_seed(1)
    slope = torch.linspace(-1, 1, width)
    return (torch.randn(1, 3, height, width) * (slope + 1.2) * 0.4 + slope).clamp(-1, 1)


def in_tiles(network: nn.Module, image: Tensor, multiple: int, tile: int, folder: Path, **options: Any) -> Tensor:
    tiled = TiledNetwork(network, tile=tile, size_multiple=multiple, min_size=2 * multiple, folder=folder, **options)
    return assembled(tiled, lambda window: window.cut(image), *image.shape[-2:])


def assembled(tiled: TiledNetwork, read: Callable[[Window], Tensor], height: int, width: int) -> Tensor:
    parts = list(tiled.parts(read, height, width))
    image = torch.full((1, 3, parts[-1][0].bottom, parts[-1][0].right), torch.nan)
    for window, part in parts:
        window.cut(image).copy_(part)
    return image


@pytest.mark.parametrize("name", CASES)
def test_tiles_give_the_whole_image(name: str, tmp_path: Path) -> None:
    network, multiple, scale = CASES[name]
    image = picture(multiple * (7 if multiple < 32 else 3), multiple * (9 if multiple < 32 else 4))
    with torch.no_grad():
        whole = lively(network)(image)
    assert list(whole.shape[2:]) == [side * scale for side in image.shape[2:]]
    assert whole.std() > 0.1
    for tile in (multiple, 1000 * multiple) if name == "transposed" else (3 * multiple,):
        tiled = in_tiles(network, image, multiple, tile, tmp_path, scale=scale)
        assert tiled.shape == whole.shape
        assert (tiled - whole).abs().max() < LEVEL / (50 if scale == 1 else 10)
    assert not list(tmp_path.iterdir())


def test_a_network_reads_no_more_than_a_tile_of_images_of_several_sizes(tmp_path: Path) -> None:
    network, read = lively(global_net()), list[Window]()
    tiled = TiledNetwork(network, tile=16, size_multiple=4, min_size=8, folder=tmp_path)
    for image in (picture(32, 48), picture(20, 64), picture(32, 48)):

        def part(window: Window, image: Tensor = image) -> Tensor:
            read.append(window)
            return window.cut(image)

        with torch.no_grad():
            assert (assembled(tiled, part, *image.shape[-2:]) - network(image)).abs().max() < 1e-3
    assert len(read) == 6 + 8 + 6  # the image itself is read only by the first segment
    assert max(window.bottom - window.top for window in read) <= 16 + 2 * 4


def test_windows_are_blended_without_steps(tmp_path: Path) -> None:
    network = lively(global_net(norm="batch"))
    image = picture(64, 192)
    with torch.no_grad():
        whole = network(image)
    errors = [
        (in_tiles(network, image, 4, 64, tmp_path, overlap=overlap) - whole).abs().mean() for overlap in (0, 8, 100)
    ]
    assert errors == sorted(errors, reverse=True)
    assert errors[0] > LEVEL  # without overlap, seams are visible
    assert errors[-1] < LEVEL / 4
    pointwise = lively(nn.Sequential(nn.Conv2d(3, 3, 1)))
    constant = in_tiles(pointwise, torch.ones(1, 3, 64, 192), 4, 64, tmp_path, overlap=8)
    assert (constant - constant[..., :1, :1]).abs().max() < 1e-6  # weights add up to one


@pytest.mark.parametrize("name", ["enhancer", "unet"])
def test_windows_have_statistics_of_their_own_and_are_blended(name: str, tmp_path: Path) -> None:
    networks: dict[str, nn.Module] = {
        "enhancer": LocalEnhancer(in_channels=3, base_channels=4, n_downsamplings=2, n_blocks=1),
        "unet": unet(norm="instance"),
    }
    network = lively(networks[name])
    image, multiple = picture(64, 192), 32 if name == "unet" else 8
    image[..., 64:] = image[..., 64:] / 4 + 0.5  # far from the window around the pixels that are compared
    windowed = in_tiles(network, image, multiple, 64, tmp_path, overlap=32)
    with torch.no_grad():
        whole, window = network(image), network(image[..., : 128 if name == "unet" else 96])
    torch.testing.assert_close(windowed[..., :32], window[..., :32], atol=1e-4, rtol=0)
    assert (windowed - whole).abs().mean() > LEVEL


@pytest.mark.parametrize(("dtype", "level"), [(torch.bfloat16, "O1"), (torch.float16, "O2")])
def test_low_precision_is_that_of_the_whole_image(dtype: torch.dtype, level: str, tmp_path: Path) -> None:
    precision = Precision("cpu", dtype, level)  # type: ignore[arg-type]
    network = precision.compute_copy(lively(global_net()))
    image = picture(32, 64)
    with torch.no_grad(), precision.autocast():
        whole = network(image)
        tiled = in_tiles(network, image, 4, 16, tmp_path)
    exact = lively(global_net()).double()(image.double()).detach()
    assert (tiled - exact).abs().mean() < 1.5 * (whole - exact).abs().mean() + 1e-4


def test_a_full_disk_is_an_error_before_it_is_written_to(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*arguments: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("os.posix_fallocate", refuse)
    with pytest.raises(OSError, match="no space left for temporary files of --tile") as raised:
        mapped_array(tmp_path, (10,), np.uint8)
    assert raised.value.filename == str(tmp_path)
