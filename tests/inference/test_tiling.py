"""In tiles a network makes of an image what it makes of it at once; temporary files give back what was written."""

import resource
import signal
from contextlib import closing
from functools import partial
from io import FileIO
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn.utils import parametrize

from inference.tiling import TensorFile, TiledNetwork, Window
from models.activation_checkpointing import enable_activation_checkpointing
from models.blocks import Upsample
from models.global_generator import GlobalGenerator, LocalEnhancer
from models.latent_inputs import draw_latents
from models.spade_generator import SpadeGenerator
from models.spectral_norm import add_spectral_norm
from models.unet_generator import UnetGenerator
from utils.precision import Precision

LEVEL = 2 / 255  # of [-1, 1]

GLOBAL: dict[str, Any] = {"in_channels": 3, "base_channels": 4, "n_downsamplings": 2, "n_blocks": 2}
ANTIALIASED: dict[str, Any] = {"downsample": "antialiased", "biased_downs": True}
SPADE: dict[str, Any] = {"in_channels": 3, "base_channels": 4, "n_upsamplings": 3, "hidden_channels": 6}
SCALES = [0.25, 0.5, 2.0, 4.0]


def unet(**options: Any) -> UnetGenerator:
    return UnetGenerator(in_channels=3, base_channels=4, n_downsamplings=5, **options)


UPS: tuple[Upsample, ...] = ("transposed", "nearest", "bilinear", "residual")
PADDINGS = ("zeros", "reflect", "zeros", "reflect")  # those of make test: each kind of UPS with one of each other list


def marks(*, is_short: bool) -> list[pytest.MarkDecorator]:
    return [] if is_short else [pytest.mark.slow]


CASES = [  # networks, and the multiples that sides have to be of
    *(
        pytest.param(
            GlobalGenerator(**GLOBAL, upsample=up, padding=padding),
            *(4, 1),
            id=f"global {up} {padding}",
            marks=marks(is_short=padding == usual),
        )
        for up, usual in zip(UPS, PADDINGS, strict=True)
        for padding in ("zeros", "reflect")
    ),
    *(
        pytest.param(
            GlobalGenerator(**GLOBAL, upsample=up, scale=scale),
            *(4, scale),
            id=f"global {up} {scale}",
            marks=marks(is_short=scale == usual),
        )
        for up, usual in zip(UPS, SCALES, strict=True)
        for scale in SCALES
    ),
    pytest.param(GlobalGenerator(**GLOBAL, **ANTIALIASED, upsample="antialiased"), 4, 1, id="antialiased"),
    pytest.param(GlobalGenerator(**GLOBAL, **ANTIALIASED, norm="batch"), 4, 1, id="antialiased batch"),
    pytest.param(GlobalGenerator(**GLOBAL, skips="full"), 4, 1, id="full skips"),
    *(
        pytest.param(GlobalGenerator(**GLOBAL, skips="half", scale=scale), 4, scale, id=f"skips {scale}")
        for scale in (1, 0.5)
    ),
    pytest.param(GlobalGenerator(**GLOBAL, norm="batch", dropout=True), 4, 1, id="global batch"),
    *(
        pytest.param(GlobalGenerator(**GLOBAL, norm="batch", scale=scale), 4, scale, id=f"global batch {scale}")
        for scale in (0.5, 4.0)
    ),
    pytest.param(LocalEnhancer(**GLOBAL), 8, 1, id="local"),
    pytest.param(LocalEnhancer(**GLOBAL, n_enhancers=2, upsample="nearest"), 16, 1, id="local, two enhancers"),
    *(pytest.param(unet(norm="instance", scale=scale), 32, scale, id=f"unet {scale}") for scale in (1.0, *SCALES)),
    pytest.param(unet(norm="batch"), 32, 1, id="unet batch"),
    *(pytest.param(unet(upsample=up), 32, 1, id=f"unet {up}") for up in ("nearest", "bilinear")),
    pytest.param(add_spectral_norm(GlobalGenerator(**GLOBAL)), 4, 1, id="spectral norm"),
    pytest.param(SpadeGenerator(**SPADE), 8, 1, id="spade of maps"),
    pytest.param(SpadeGenerator(**SPADE, n_image_channels=2, noise_channels=2), 8, 1, id="spade of image and map"),
    pytest.param(add_spectral_norm(SpadeGenerator(**SPADE, norm="batch")), 8, 1, id="spade batch"),
    pytest.param(SpadeGenerator(**SPADE, style_channels=3, style_height=2, style_width=3), 8, 1, id="spade, style"),
    pytest.param(SpadeGenerator(**SPADE, style_channels=3, norm="batch"), 8, 1, id="spade batch with a style"),
]


def lively(network: nn.Module) -> nn.Module:
    """With weights that keep the scale, so that the picture uses all levels; and statistics as after training."""
    torch.manual_seed(0)
    for parameter in network.parameters():
        if parameter.dim() > 1:
            nn.init.normal_(parameter, 0, (2 / parameter[0].numel()) ** 0.5)
    for module in network.train().modules():  # spectral norm's vectors begin at random: iterate until that is forgotten
        if parametrize.is_parametrized(module, "weight"):
            for _ in range(100):
                _ = module.weight
    draw_latents(network, [0])
    network.eval()
    batch_norms = [module for module in network.modules() if isinstance(module, nn.BatchNorm2d)]
    for module in batch_norms:
        module.momentum = None  # averages all that it sees
        module.train()
    with torch.no_grad():
        network(picture(96, 128))
    return network.eval()


def picture(height: int, width: int) -> Tensor:
    """Noise that gets brighter and livelier to the right: no tile has the statistics of the whole."""
    torch.manual_seed(1)
    slope = torch.linspace(-1, 1, width)
    return (torch.randn(1, 3, height, width) * (slope + 1.2) * 0.4 + slope).clamp(-1, 1)


def in_tiles(network: nn.Module, image: Tensor, multiple: int, tile: int, folder: Path, **options: Any) -> Tensor:
    tiled = TiledNetwork(network, tile=tile, size_multiple=multiple, min_size=2 * multiple, folder=folder, **options)
    return torch.cat(list(tiled.bands(lambda window: window.cut(image), *image.shape[-2:])), dim=2)


@pytest.mark.parametrize(("network", "multiple", "scale"), CASES)
def test_tiles_give_the_whole_image(network: nn.Module, multiple: int, scale: float, tmp_path: Path) -> None:
    image = picture(multiple * (9 if multiple < 32 else 3), multiple * (13 if multiple < 32 else 4))
    with torch.no_grad():
        whole = lively(network)(image)
    assert list(whole.shape[2:]) == [side * scale for side in image.shape[2:]]
    assert whole.std() > 0.1
    for tile in (multiple, 4 * multiple, 1000 * multiple):
        tiled = in_tiles(network, image, multiple, tile, tmp_path, scale=scale)
        assert tiled.shape == whole.shape
        assert (tiled - whole).abs().max() < LEVEL / (50 if scale == 1 else 10)
    assert not list(tmp_path.iterdir())


def test_a_network_is_used_for_images_of_several_sizes(tmp_path: Path) -> None:
    network = lively(GlobalGenerator(**GLOBAL))
    tiled = TiledNetwork(network, tile=16, size_multiple=4, min_size=8, folder=tmp_path)
    for image in (picture(32, 48), picture(20, 64), picture(32, 48)):
        with torch.no_grad():
            whole = network(image)
        bands = tiled.bands(partial(Window.cut, image=image), *image.shape[-2:])
        assert (torch.cat(list(bands), dim=2) - whole).abs().max() < 1e-3


def test_only_a_tile_is_read_at_once(tmp_path: Path) -> None:
    image, read = picture(96, 128), list[Window]()

    def part(window: Window) -> Tensor:
        read.append(window)
        return window.cut(image)

    tiled = TiledNetwork(lively(GlobalGenerator(**GLOBAL)), tile=32, size_multiple=4, min_size=8, folder=tmp_path)
    assert sum(band.shape[2] for band in tiled.bands(part, 96, 128)) == 96
    assert len(read) == 12  # the image itself is read by the first segment alone
    assert max(window.bottom - window.top for window in read) <= 32 + 2 * 4


def test_windows_are_blended_without_steps(tmp_path: Path) -> None:
    network = lively(GlobalGenerator(**GLOBAL, norm="batch"))
    image = picture(64, 192)
    with torch.no_grad():
        whole = network(image)
    errors = [
        (in_tiles(network, image, 4, 64, tmp_path, overlap=overlap) - whole).abs().mean() for overlap in (0, 8, 16, 100)
    ]
    assert errors == sorted(errors, reverse=True)
    assert errors[0] > LEVEL  # without overlap, seams are visible
    assert errors[-1] < LEVEL / 4
    constant = in_tiles(
        lively(nn.Sequential(nn.Conv2d(3, 3, 1))), torch.ones(1, 3, 64, 192), 4, 64, tmp_path, overlap=8
    )
    assert (constant - constant[..., :1, :1]).abs().max() < 1e-6  # weights add up to one


@pytest.mark.parametrize("name", ["global", "enhancer", "unet", "style"])
def test_windows_have_statistics_of_their_own_and_are_blended(name: str, tmp_path: Path) -> None:
    network = lively(
        {
            "global": lambda: GlobalGenerator(**GLOBAL),
            "enhancer": lambda: LocalEnhancer(in_channels=3, base_channels=4, n_downsamplings=2, n_blocks=1),
            "unet": lambda: unet(norm="instance"),
            "style": lambda: SpadeGenerator(**SPADE, norm="instance", style_channels=4),
        }[name]()
    )
    image, multiple = picture(64, 192), 32 if name == "unet" else 8
    image[..., 64:] = image[..., 64:] / 4 + 0.5  # far from the window around the pixels that are compared
    windowed = in_tiles(network, image, multiple, 64, tmp_path, overlap=32)
    with torch.no_grad():
        whole, window = network(image), network(image[..., : 128 if name == "unet" else 96])
    if name != "style":  # which depends on the sides of the full image
        torch.testing.assert_close(windowed[..., :32], window[..., :32], atol=1e-4, rtol=0)
    assert (windowed - whole).abs().mean() > LEVEL


def test_a_window_of_one_colour_becomes_one_of_one_colour(tmp_path: Path) -> None:
    network = lively(GlobalGenerator(**GLOBAL))
    image = picture(64, 128)
    image[..., :64] = 0.3
    windowed = in_tiles(network, image, 4, 16, tmp_path, overlap=8)
    assert (windowed[..., :24] - windowed[..., :1, :1]).abs().max() < 1e-4


@pytest.mark.parametrize("scale", [0.5, 4.0])
def test_windows_of_another_scale_differ_little(scale: float, tmp_path: Path) -> None:
    network, image = lively(GlobalGenerator(**GLOBAL, norm="batch", scale=scale)), picture(96, 128)
    with torch.no_grad():
        whole = network(image)
    tiled = in_tiles(network, image, 4, 64, tmp_path, overlap=32 * int(max(1, scale)), scale=scale)
    assert tiled.shape == whole.shape
    assert (tiled - whole).abs().mean() < 0.1 * whole.std()


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("level", ["O1", "O2", "O3"])
def test_low_precision_is_that_of_the_whole_image(dtype: torch.dtype, level: str, tmp_path: Path) -> None:
    precision = Precision("cpu", dtype, level)  # type: ignore[arg-type]
    network = precision.compute_copy(lively(GlobalGenerator(**GLOBAL)))
    image = picture(32, 64)
    with torch.no_grad(), precision.autocast():
        whole = network(image)
        tiled = in_tiles(network, image, 4, 16, tmp_path)
    exact = lively(GlobalGenerator(**GLOBAL)).double()(image.double()).detach()
    assert (tiled - exact).abs().mean() < 1.5 * (whole - exact).abs().mean() + 1e-4


def test_recomputed_stages_are_traced(tmp_path: Path) -> None:
    network = lively(GlobalGenerator(**GLOBAL))
    enable_activation_checkpointing(network)
    image = picture(32, 64)
    with torch.no_grad():
        assert (in_tiles(network, image, 4, 16, tmp_path) - network(image)).abs().max() < 1e-3


WHOLE = Window(0, 4, 0, 6)
PART = torch.arange(2 * 4 * 6.0).view(1, 2, 4, 6)
ROW = 6 * 2 * 4  # bytes


class Sluggish(FileIO):
    """Writes and reads up to 7 bytes a call, as the system may."""

    def write(self, data: Any) -> int:
        return super().write(data[:7])

    def readinto(self, buffer: Any) -> int:
        return super().readinto(buffer[:7])


@pytest.mark.parametrize("n_channels", [1, 2])
def test_a_part_of_an_image_of_any_strides_is_kept(n_channels: int, tmp_path: Path) -> None:
    with closing(TensorFile(tmp_path, width=6)) as file:
        file.write(WHOLE, PART[:, :n_channels] / torch.ones(4, 6))
        assert torch.equal(file.read(WHOLE), PART[:, :n_channels])


def test_a_system_that_takes_and_gives_little_at_once_loses_nothing(tmp_path: Path) -> None:
    with closing(TensorFile(tmp_path, width=6)) as file:
        file.file.close()
        file.file = Sluggish(tmp_path / "x", "w+b")
        file.write(WHOLE, PART)
        assert torch.equal(file.read(WHOLE), PART)
        assert torch.equal(file.read(Window(1, 3, 2, 5)), PART[..., 1:3, 2:5])


def test_a_disk_that_is_full_within_the_last_row_is_an_error(tmp_path: Path) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    before = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    with closing(TensorFile(tmp_path, width=6)) as file:
        resource.setrlimit(resource.RLIMIT_FSIZE, (4 * ROW - 5, hard))
        try:
            with pytest.raises(OSError, match="File too large"):
                file.write(WHOLE, PART)
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
            signal.signal(signal.SIGXFSZ, before)


def test_a_file_that_ends_early_is_an_error(tmp_path: Path) -> None:
    with closing(TensorFile(tmp_path, width=6)) as file:
        file.write(WHOLE, PART)
        file.file.truncate(4 * ROW - 5)
        assert torch.equal(file.read(Window(0, 3, 0, 6)), PART[..., :3, :])
        with pytest.raises(OSError, match="is shorter than what was written"):
            file.read(WHOLE)
