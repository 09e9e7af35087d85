"""Reading the maps of a sample: sizes, stacks of sources, and the rule of caches."""

import re
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import torch

from data.batch import DataError, weights_to_float
from data.checks import Check
from data.files.image_files import StoredForm, read_weights
from data.folder import LocalFile
from data.map_reader import MapReader, read_part, stacked
from data.paired_folders import PairedFolders
from tests.conftest import save_image
from tests.images import save_npy
from tests.reliability.images import WHOLE
from utils.label_colors import LabelColors

RGB = np.arange(72, dtype=np.uint8).reshape(4, 6, 3)
DEPTH = np.arange(24, dtype=np.uint16).reshape(4, 6) * 1000
COLORS, OTHERS = (LabelColors.of({"a": [k, 1, 1], "b": [2, 2, 2], "c": [3, 3, 3]}, "x", "x") for k in (0, 1))


form = partial(StoredForm, setting="data.source_channels", is_8_bit=False)


def files(root: Path, **maps: np.ndarray) -> dict[str, Path]:
    for kind, pixels in maps.items():
        save_image(root / f"{kind}.png", pixels)
    return {kind: root / f"{kind}.png" for kind in maps}


@pytest.mark.parametrize(
    ("scale", "size", "message"),
    [
        (4, (32, 24), "is 16x12 but its partner .*target.png is 32x24, expected 64x48 .*, or .* generator.scale=2$"),
        (0.5, (16, 12), "is 16x12, expected 8x6 with .*=0.5: .*, or train with generator.scale=1$"),
        (1, (16, 11), "is 16x11: make them the same size$"),
        (1, (12, 16), "is 12x16: turn one of them"),
    ],
)
def test_pairs_of_other_sizes_are_named(tmp_path: Path, scale: float, size: tuple[int, int], message: str) -> None:
    paths = files(tmp_path, source=np.zeros((12, 16, 3), np.uint8), target=np.zeros((*size[::-1], 3), np.uint8))
    with pytest.raises(DataError, match=message):
        MapReader(target_scale=scale).read("a", paths)


def test_features_may_have_another_size_and_weights_have_that_of_the_target(tmp_path: Path) -> None:
    sample = MapReader().read("a", files(tmp_path, source=RGB, features=RGB[:2]))
    assert sample.maps["features"].shape == (3, 2, 6)
    with pytest.raises(DataError, match=r"target\.png is 6x4 but its partner .*weights\.png is 6x3: make them"):
        MapReader().read("a", files(tmp_path, source=RGB, target=RGB, weights=RGB[:3, :, 0]))


@pytest.mark.parametrize(
    ("dtypes", "expected"),
    [(("uint8", "uint8"), "uint8"), (("uint16", "uint8", "uint16"), "uint16"), (("uint16", "int16"), "float32")],
)
def test_a_stack_holds_all_values_exactly(dtypes: tuple[str, ...], expected: str) -> None:
    images = []
    for dtype in dtypes:
        bounds = (0, 1e30) if dtype == "float32" else (np.iinfo(dtype).min, np.iinfo(dtype).max)
        images.append(torch.from_numpy(np.array([[bounds]], dtype)))
    stack = stacked(images, [Path("x")] * len(images), form(len(images)))
    assert str(stack.dtype) == f"torch.{expected}"
    for channel, image in zip(stack, images, strict=True):
        assert channel.double().tolist() == image[0].double().tolist()


def test_transparency_is_dropped_where_the_channels_fit_without_it(tmp_path: Path) -> None:
    colors, depth = files(tmp_path, colors=np.dstack([RGB, np.full((4, 6), 9, np.uint8)]), depth=DEPTH).values()
    images = [read_part(path, form(4)) for path in (colors, depth)]
    assert stacked(images, [colors, depth], form(4))[:3].tolist() == RGB.transpose(2, 0, 1).tolist()
    assert stacked(images, [colors, depth], form(5))[3].unique().tolist() == [9]
    with pytest.raises(DataError, match=r"colors\.png has 4 channels, .* has 1 channel: together 5, data\.sou"):
        stacked(images, [colors, depth], form(3))


def folders(root: Path, first: str, *, n_classes: int, forms: dict[str, StoredForm]) -> PairedFolders:
    places = {"source": root / first, "source_2": root / "depth", "target": root / "target"}
    return PairedFolders(places, MapReader(n_classes, forms=forms))


def test_sources_are_stacked_in_the_order_of_the_folders_behind_label_maps_alone(tmp_path: Path) -> None:
    maps: dict[str, np.ndarray] = {"rgb": RGB, "depth": DEPTH, "label": RGB[..., 0] // 40, "target": RGB}
    for folder, pixels in maps.items():
        save_image(tmp_path / folder / "x.png", pixels)
    layout = folders(tmp_path, "rgb", n_classes=0, forms={"source": form(4)})
    provenance, sample = layout.provenance(0), layout.read(0)
    files = {kind: file.folder.path.name for kind, file in provenance.files.items()}
    assert list(files.items()) == [("source", "rgb"), ("source_2", "depth"), ("target", "target")]
    assert [folder.path.name for folder in layout.folders] == ["rgb", "target", "depth"]
    assert sample.source_images is None
    assert sample.source.tolist() == [*RGB.transpose(2, 0, 1).tolist(), DEPTH.tolist()]
    labels = folders(tmp_path, "label", n_classes=3, forms={"source_images": form(1)}).read(0)
    assert labels.source.tolist() == (RGB[None, ..., 0] // 40).tolist()
    assert labels.maps["source_images"].tolist() == DEPTH[None].tolist()


def test_folders_that_are_shifted_against_each_other_are_found(tmp_path: Path) -> None:
    blocks = np.random.default_rng(0).integers(0, 4, (14, 14), dtype=np.uint8).repeat(8, 0).repeat(8, 1)
    color = np.dstack([blocks[8:104, 8:104]] * 3)
    depth = blocks[8:104, 3:99].astype(np.uint16) * 9000
    maps = {"label": color[..., 0], "target": color * np.uint8(50)}
    for folder, pixels in (maps | {"depth": depth}).items():
        save_image(tmp_path / folder / "x.png", pixels)
    layout = folders(tmp_path, "label", n_classes=4, forms={"source_images": form(1)})
    checked = Check(layout, WHOLE, is_for_training=False)(0)
    assert checked.shifts == {"targets": (0, 0), "images of the last source folder": (5, 0)}


def test_the_rule_of_a_sample_knows_its_settings_and_is_that_of_earlier_versions() -> None:
    maps = {kind: LocalFile.of(Path(kind)) for kind in ("source", "target")}
    readers = [MapReader(3), MapReader(3, 255, {"target": form(1)})]
    readers += [MapReader(3, colors=colors) for colors in (COLORS, OTHERS)]
    readers += [MapReader(3, colors=COLORS, divided_classes=frozenset(divided)) for divided in ([], [1])]
    rules = [reader.provenance(maps).rule for reader in readers]
    assert len(set(rules)) == len(rules)
    stored = "StoredForm(n_channels=1, setting='data.source_channels', is_8_bit=False)"
    assert rules[:2] == ["['source', 'target'] 3 None", f"['source', 'target'] 3 255 [('target', {stored})]"]


WEIGHTS = np.array([[0, 51, 255], [255, 255, 0]], np.uint8)


@pytest.mark.parametrize(
    ("name", "stored", "dtype", "scale"),
    [
        ("x.png", WEIGHTS, torch.uint8, 255),
        ("x.png", WEIGHTS.astype(np.uint16) * 257, torch.uint16, 65535),
        ("x.npy", WEIGHTS.astype(np.float64) / 255, torch.float32, 1),
        ("x.npy", WEIGHTS[None] > 0, torch.uint8, 255),
    ],
)
def test_weights_are_shares_of_the_largest_or_as_stored(
    tmp_path: Path, name: str, stored: np.ndarray, dtype: torch.dtype, scale: float
) -> None:
    {"x.png": save_image, "x.npy": save_npy}[name](tmp_path / name, stored)
    weights = read_weights(tmp_path / name)
    assert weights.dtype == dtype
    expected = torch.from_numpy(stored * 1.0 if stored.dtype == bool else stored / scale).float().view(weights.shape)
    torch.testing.assert_close(weights_to_float(weights), expected)


@pytest.mark.parametrize(
    ("pixels", "expected"),
    [
        (np.array([[1, 2], [3, -0.5]]), "row 1, column 1 holds -0.5 (1 such pixel), expected weights from 0 to 1e+15"),
        (np.array([[1, np.nan], [np.inf, 3.4e38]]), "row 0, column 1 holds nan (3 such pixels)"),
    ],
)
def test_wrong_weights_are_named(tmp_path: Path, pixels: np.ndarray, expected: str) -> None:
    save_npy(tmp_path / "x.npy", pixels)
    with pytest.raises(DataError, match=re.escape(f"{tmp_path / 'x.npy'}: {expected}")):
        read_weights(tmp_path / "x.npy")
