"""Each generator is computed in tiles and written in each format, or refused in one line, and so is a new one."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

from configs import build
from configs.build import image_sides
from configs.load import load_config
from configs.schema import GeneratorConfig
from inference.load import LoadedGenerator
from inference.tiling import TiledNetwork
from models import GENERATORS
from models.generator import Generator, ImageSides
from tests.runs import SPADE
from tools.export.onnx import export_program
from tools.export.original import write_original
from tools.export.safetensors import export_weights
from utils.errors import UserError

SETTINGS = {
    "global": [],
    "local": ["data.synthetic_size=[32,64]"],
    "unet": ["generator.n_downsamplings=5"],
    "spade": [*SPADE, "generator.n_upsamplings=5", "data.synthetic_size=[64,64]"],
}


class Pooling(Generator):
    """A generator of an author who has read CONTRIBUTING and nothing else, with a layer that sees the full image."""

    def __init__(self, *, in_channels: int, out_channels: int = 3, base_channels: int = 4) -> None:
        super().__init__()
        self.stem = nn.Conv2d(in_channels, base_channels, kernel_size=3, padding=1)
        self.pool = nn.AdaptiveAvgPool2d(1)
        self.head = nn.Conv2d(base_channels, out_channels, kernel_size=1)

    @staticmethod
    def image_sides() -> ImageSides:
        return ImageSides(multiple=1, minimum=1)

    def forward(self, source: Tensor) -> Tensor:
        x = self.stem(source)
        return self.head(x * self.pool(x)).tanh()


class Branching(Pooling):
    """The same, with layers that depend on the values of the image."""

    def forward(self, source: Tensor) -> Tensor:
        return self.head(self.stem(source)) if source.sum() > 0 else self.head(self.stem(-source))


NEW: dict[str, type[Generator]] = {"pooling": Pooling, "branching": Branching}


@pytest.fixture
def load(tiny_config: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], LoadedGenerator]:
    def of_name(name: str) -> LoadedGenerator:
        torch.manual_seed(0)
        if name in NEW:
            monkeypatch.setitem(GENERATORS, name, NEW[name])
            config = replace(load_config(tiny_config, []), generator=GeneratorConfig(name=name))
        else:
            config = load_config(tiny_config, [f"generator.name={name}", *SETTINGS[name]])
        return LoadedGenerator(tiny_config.parent / "checkpoint.pt", config, 1, build.build_generator(config).eval())

    return of_name


def in_tiles(loaded: LoadedGenerator, folder: Path) -> None:
    sides = image_sides(loaded.config)
    in_channels = build.data_facts(loaded.config).conditioning.channels
    image = torch.randn(1, in_channels, 3 * sides.minimum, 2 * sides.minimum)
    tiled = TiledNetwork(
        loaded.generator, tile=sides.minimum, size_multiple=sides.multiple, min_size=sides.minimum, folder=folder
    )
    with torch.no_grad():
        expected = loaded.generator(image)
    for window, part in tiled.parts(lambda window: window.cut(image), *image.shape[2:]):
        torch.testing.assert_close(part, window.cut(expected), rtol=0, atol=1e-3)


USES: dict[str, Callable[[LoadedGenerator, Path], None]] = {
    "tiles": in_tiles,
    "safetensors": lambda loaded, folder: export_weights(loaded, folder / "g.safetensors", "float32"),
    "original": lambda loaded, folder: write_original(loaded, folder / "latest_net_G.pth"),
    "onnx": lambda loaded, folder: export_program(loaded, folder / "g.onnx", "float32"),
}


@pytest.mark.parametrize("use", ["tiles", "safetensors", "original"])
@pytest.mark.parametrize("name", GENERATORS)
def test_each_generator_is_taken(name: str, use: str, load: Callable[[str], LoadedGenerator], tmp_path: Path) -> None:
    USES[use](load(name), tmp_path)


@pytest.mark.parametrize(
    ("name", "use", "message"),
    [
        ("pooling", "tiles", r"--tile: Pooling cannot be .*: its layer pool \(AdaptiveAvgPool2d\) .* Omit --tile\."),
        ("pooling", "original", r"no original has this network \(Pooling\)\. Use --format safetensors\."),
        ("branching", "tiles", r"--tile: Branching cannot be .*: its layers depend on the image .* Omit --tile\."),
        pytest.param("branching", "onnx", r".*: Branching cannot be traced .* Use .*\.", marks=pytest.mark.slow),
    ],
)
def test_a_new_generator_is_refused_in_one_line(
    name: str, use: str, message: str, load: Callable[[str], LoadedGenerator], tmp_path: Path
) -> None:
    with pytest.raises(UserError, match=f"^{message}$"):
        USES[use](load(name), tmp_path)
