"""Peculiarities of a sample: values that stand for no data, transparency that reading drops, displacement."""

from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor
from torchvision.transforms.v2.functional import gaussian_blur

from data.checks.observation import MIN_SIDE, displacement, no_data, observe
from data.facades.dataset import SyntheticFacades
from data.files.pixels import StoredForm
from data.layout import Layout
from data.map_reader import MapReader
from data.paired_folders import PairedFolders, SideBySide
from data.preprocessing import resize_image
from tests.conftest import save_image
from tests.images import tifffile

FLOATS = np.random.default_rng(0).uniform(-400.0, 3000.0, (2, 8, 9)).astype(np.float32)
LEVELS = np.random.default_rng(1).integers(0, 10000, (3, 6, 6)).astype(np.uint16)
NETCDF = float(np.float32(9.969209968386869e36))
LOWEST = float(np.finfo(np.float32).min)
GREY = np.zeros((8, 16), np.uint8)


def found(values: np.ndarray, *pixels: float, path: Path | None = None) -> tuple[float, int] | None:
    changed = values.copy()
    changed[0, 0, : len(pixels)] = pixels
    return no_data(torch.from_numpy(changed), path)


@pytest.mark.parametrize(
    ("values", "value"),
    [
        *((FLOATS, value) for value in (-9999.0, -99999.0, NETCDF, LOWEST, -32768.0)),
        (LEVELS, 65535.0),
        (LEVELS.astype(np.int16), -32768.0),
    ],
)
def test_a_usual_value_apart_from_all_others_is_one(values: np.ndarray, value: float) -> None:
    assert found(values) is None
    assert found(values, value, value) == (value, 2)


def test_pixels_are_counted_once() -> None:
    both = FLOATS.copy()
    both[:, 3, 4:7] = -9999
    assert found(both) == (-9999.0, 3)


@pytest.mark.parametrize(
    ("values", "pixels"),
    [
        (FLOATS, (-9000.0,)),  # not usual
        (FLOATS * 10, (-9999.0, -9998.0)),  # among others
        (FLOATS.astype(np.int16) * 10, (-32768,)),  # a limit nearer than the others are apart: saturated
        (np.full((1, 4, 4), -9999, np.float32), ()),  # no other: an image of one colour
        ((FLOATS % 256).astype(np.uint8), ()),
    ],
)
def test_other_values_are_none(values: np.ndarray, pixels: tuple[float, ...]) -> None:
    assert found(values, *pixels) is None


@pytest.mark.parametrize(("text", "value"), [("-7", -7.0), ("0 ", 0.0), ("nan", None), ("none", None)])
def test_the_tag_of_a_tiff_names_any_value(tmp_path: Path, text: str, value: float | None) -> None:
    path = tmp_path / "x.tif"
    tifffile().imwrite(path, FLOATS, photometric="minisblack", extratags=[(42113, 2, 0, text, True)])
    assert found(FLOATS, -7.0, 0.0, path=path) == (None if value is None else (value, 1))
    assert found(FLOATS, path=tmp_path / "missing.tif") is None


def paired(root: Path, n_channels: int = 0, n_classes: int = 0, **folders: Path) -> Layout:
    """Pairs with sources in A; n_channels: those that are expected, where it is not RGB."""
    forms = {"source": StoredForm(n_channels, "data.source_channels", is_8_bit=True)} if n_channels else {}
    return PairedFolders({"source": root / "A", **folders}, MapReader(n_classes, forms=forms))


def lost(layout: Layout) -> list[str]:
    return [path.name for path in observe(layout, 0, layout.read(0)).transparent]


def test_transparency_that_is_dropped(tmp_path: Path) -> None:
    save_image(tmp_path / "A" / "x.png", np.full((8, 16, 4), 127, np.uint8))
    save_image(tmp_path / "opaque" / "x.png", np.full((8, 16, 4), 255, np.uint8))
    save_image(tmp_path / "grey" / "x.png", GREY)
    assert lost(paired(tmp_path)) == ["x.png"]
    assert lost(SideBySide(folder=tmp_path / "A", a_to_b=True)) == ["x.png"]
    assert lost(paired(tmp_path, 4, source_2=tmp_path / "grey")) == ["x.png"]
    assert lost(paired(tmp_path, 4)) == lost(paired(tmp_path, 5, source_2=tmp_path / "grey")) == []
    assert lost(SideBySide(folder=tmp_path / "opaque", a_to_b=True)) == []
    save_image(tmp_path / "A" / "x.png", GREY)  # a label map is no image
    assert lost(paired(tmp_path, n_classes=2, target=tmp_path / "opaque")) == []


FACADES = SyntheticFacades(split="train", seed=0, n_samples=4, height=160, width=168)
MARGIN = 16  # pixels


def cropped(image: Tensor, x: int = 0, y: int = 0) -> Tensor:
    """Return an image without its margins, moved by x to the right and y down."""
    height, width = image.shape[-2:]
    return image[:, MARGIN - y : height - MARGIN - y, MARGIN - x : width - MARGIN - x]


@pytest.mark.parametrize("index", range(4))
@pytest.mark.parametrize("shift", [(0, 0), (-5, 3), (9, 12), (0, -7)])
@pytest.mark.parametrize("kind", ["ids", "negative", "blurred"])
def test_the_place_of_the_target_is_found(index: int, shift: tuple[int, int], kind: str) -> None:
    sample = FACADES.read(index)
    target = cropped(sample.maps["target"], *shift)
    if kind == "ids":
        assert displacement(cropped(sample.source), target, source_is_ids=True) == shift
        return
    source = cropped(sample.maps["target"])
    source = gaussian_blur(source, [7, 7]) if kind == "blurred" else source
    found = displacement(255 - source, target, source_is_ids=False)
    assert found is not None
    assert max(abs(a - b) for a, b in zip(found, shift, strict=True)) <= (1 if kind == "blurred" else 0)


@pytest.mark.parametrize("is_larger", [True, False])
def test_the_place_of_a_target_of_another_size_is_found_in_pixels_of_the_smaller(is_larger: bool) -> None:
    pair = SyntheticFacades(split="train", seed=0, n_samples=1, height=320, width=336).read(0)
    large, reduced = 255 - pair.maps["target"], resize_image(pair.maps["target"], 160, 168)
    if is_larger:
        found = displacement(cropped(reduced), large[:, 32 - 12 : -32 - 12, 32 + 8 : -32 + 8], source_is_ids=False)
    else:
        found = displacement(large[:, 32:-32, 32:-32], cropped(reduced, -4, 6), source_is_ids=False)
    assert found == (-4, 6)
    assert displacement(large, reduced[:, :, 1:], source_is_ids=False) is None


def test_nothing_is_said_of_images_that_cannot_be_compared() -> None:
    noise, other = torch.from_numpy(np.random.default_rng(0).integers(0, 256, (2, 3, 128, 128), dtype=np.uint8))
    plain, small = torch.full_like(noise, 7), noise[:, : MIN_SIDE - 1]
    for source, target in ((noise, other), (plain, noise), (plain, plain), (noise, noise[:, 1:]), (small, small)):
        assert displacement(source, target, source_is_ids=False) is None


@pytest.mark.parametrize("dtype", [torch.uint16, torch.float32])
def test_other_types_and_channels_are_compared(dtype: torch.dtype) -> None:
    image = FACADES.read(1).target
    assert image is not None
    wide = (cropped(image).float() * 200).to(dtype)
    assert displacement(wide[:1], cropped(image, 6, -4), source_is_ids=False) == (6, -4)
