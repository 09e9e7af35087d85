"""Maps of weights: their files, their place in a sample, and what the losses get."""

import re
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor

from data.batch import Batch, DataError, Sample, weights_to_float
from data.cache import CachedLayout, SampleCache
from data.conditioning import Conditioning, weights_of_classes
from data.files.stored_images import read_weights
from data.layout import PairingError
from data.paired_folders import PairedFolders
from data.preprocessing import Placement, Placements, Preprocessing, place
from data.warp import Warp, affine_inverse
from data.warp import read_weights as read_warped
from tests.conftest import save_image
from tests.images import save_npy, tifffile

WEIGHTS = np.array([[0, 51, 255], [255, 255, 0]], np.uint8)


def layout_in(root: Path) -> PairedFolders:
    return PairedFolders(
        source_folder=root / "A", target_folder=root / "B", instance_folder=None, weight_folder=root / "W"
    )


def save_pairs(root: Path, weights: np.ndarray = WEIGHTS) -> PairedFolders:
    rgb = np.zeros((2, 3, 3), np.uint8)
    for folder in "AB":
        save_image(root / folder / "x.png", rgb)
    save_image(root / "W" / "x.png", weights)
    return layout_in(root)


def test_values_are_shares_of_the_largest_or_as_stored(tmp_path: Path) -> None:
    save_image(tmp_path / "a.png", WEIGHTS)
    save_image(tmp_path / "b.png", WEIGHTS.astype(np.uint16) * 257)
    save_npy(tmp_path / "c.npy", WEIGHTS.astype(np.float64) / 255)
    save_npy(tmp_path / "d.npy", WEIGHTS[None] > 0)
    read = {name: read_weights(tmp_path / name) for name in ("a.png", "b.png", "c.npy", "d.npy")}
    assert [weights.dtype for weights in read.values()] == [torch.uint8, torch.uint16, torch.float32, torch.uint8]
    expected = torch.tensor([[[[0, 0.2, 1], [1, 1, 0]]]])
    for name in ("a.png", "b.png", "c.npy"):
        torch.testing.assert_close(weights_to_float(read[name][None]), expected)
    assert torch.equal(weights_to_float(read["d.npy"][None]), (expected > 0).float())


def test_a_float_tiff_holds_the_weights_themselves(tmp_path: Path) -> None:
    tifffile().imwrite(tmp_path / "x.tif", np.array([[0.0, 7.5]], np.float32))
    assert weights_to_float(read_weights(tmp_path / "x.tif")).tolist() == [[[0, 7.5]]]


@pytest.mark.parametrize(
    ("pixels", "expected"),
    [
        (
            np.array([[1, 2], [3, -0.5]]),
            "row 1, column 1 holds -0.5 (1 such pixel), expected weights from 0 to 1e+15",
        ),
        (np.array([[1, np.nan], [np.inf, 1]]), "row 0, column 1 holds nan (2 such pixels), expected weights from 0"),
        (np.array([[np.inf, 1]]), "row 0, column 0 holds inf (1 such pixel)"),
        (np.array([[-1, 1]], np.int16), "row 0, column 0 holds -1 (1 such pixel)"),
        (np.array([[0, 3.4e38]], np.float32), "row 0, column 1 holds 3.4e+38 (1 such pixel)"),
        (np.ones((2, 4, 5)), "has 2 channels, a map of weights has 1: save it in grey"),
        (np.ones(3), "has the shape (3,), expected (H, W)"),
    ],
)
def test_wrong_values_are_named(tmp_path: Path, pixels: np.ndarray, expected: str) -> None:
    save_npy(tmp_path / "x.npy", pixels)
    with pytest.raises(DataError, match=re.escape(f"{tmp_path / 'x.npy'}: {expected}")):
        read_weights(tmp_path / "x.npy")


def test_a_map_in_colours_is_refused(tmp_path: Path) -> None:
    save_image(tmp_path / "x.png", np.zeros((4, 4, 3), np.uint8))
    with pytest.raises(DataError, match=re.escape("has 3 channels, a map of weights has 1: save it in grey")):
        read_weights(tmp_path / "x.png")


def test_a_sample_has_the_map_of_its_name(tmp_path: Path) -> None:
    layout = save_pairs(tmp_path)
    weights = layout.read(0).weights
    assert weights is not None
    assert weights.tolist() == [WEIGHTS.tolist()]
    assert layout.folders[-1].path == tmp_path / "W"
    assert str(layout.origin(0).files[-1]) == str(tmp_path / "W" / "x.png")


def test_a_map_of_another_size_than_the_target_is_named(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"B/x\.png is 3x2 but its partner .*W/x\.png is 3x1: crop the larger"):
        save_pairs(tmp_path, WEIGHTS[:1]).read(0)


def test_a_missing_map_is_named(tmp_path: Path) -> None:
    save_pairs(tmp_path)
    for folder in "AB":
        save_image(tmp_path / folder / "y.png", np.zeros((2, 3, 3), np.uint8))
    with pytest.raises(PairingError, match=r"A/y\.png: without a partner of the same name in .*W"):
        layout_in(tmp_path)
    (tmp_path / "W" / "x.png").unlink()
    (tmp_path / "W").rmdir()
    with pytest.raises(PairingError, match=r"W: no such folder.*to do without weights: data.weight_folder=null"):
        layout_in(tmp_path)


@pytest.mark.parametrize("dtype", [torch.uint8, torch.uint16, torch.float32])
def test_the_map_is_placed_as_the_target_is(dtype: torch.dtype) -> None:
    levels = torch.arange(48).view(1, 6, 8)
    sample = Sample("x", levels.expand(3, -1, -1).byte(), None, levels.expand(3, -1, -1).byte(), None, levels.to(dtype))
    placement = Placement(6, 8, top=1, left=2, crop_height=4, crop_width=4, flip=True)
    placed = place(sample, Placements.of_pair(placement), source_is_ids=False)
    assert placed.weights is not None
    assert placed.target is not None
    assert placed.weights.dtype == dtype
    assert torch.equal(placed.weights.int(), placed.target[:1].int())


@pytest.mark.parametrize("dtype", [torch.uint8, torch.uint16, torch.float32])
def test_resizing_neither_overshoots_nor_changes_plain_parts(dtype: torch.dtype) -> None:
    weights = torch.zeros(1, 16, 16, dtype=dtype)
    weights[..., 8:] = 200
    small = Placement(8, 8, 0, 0, 8, 8, flip=False).weights(weights).float()
    large = Placement(40, 40, 0, 0, 40, 40, flip=False).weights(weights).float()
    for resized in (small, large):
        side = resized.shape[-1]
        assert (resized.min(), resized.max()) == (0, 200)
        assert resized[..., : side // 2 - 3].max() == 0
        assert resized[..., side // 2 + 3 :].min() == 200


@pytest.mark.parametrize("dtype", [torch.uint8, torch.uint16, torch.float32])
def test_a_warp_ignores_what_lies_beyond_the_borders(dtype: torch.dtype) -> None:
    weights = torch.full((1, 20, 20), 9, dtype=dtype)
    half_size = Warp(affine_inverse(0, 0.5, 0)).positions(20, 20) + 10
    read = read_warped(weights, half_size)
    assert read.dtype == dtype
    assert (read.float().sum(), read[..., 5:15, 5:15].float().min()) == (900, 9)  # 10 x 10 pixels of 9


def batch_of(weights: Tensor | None, labels: Tensor | None = None) -> Batch:
    target = torch.zeros(1, 3, 2, 3, dtype=torch.uint8)
    return Batch(("x",), target if labels is None else labels, None, target, None, weights)


def test_the_weight_of_a_pixel_is_that_of_its_map_times_that_of_its_class() -> None:
    labels = torch.tensor([[[[0, 1, 2], [2, 1, 0]]]], dtype=torch.uint8)
    of_map = torch.from_numpy(WEIGHTS)[None, None]
    plain = Conditioning(n_classes=2, instance_edges=False)
    assert plain.weights(batch_of(None, labels)) is None
    weighted = Conditioning(n_classes=2, instance_edges=False, class_weights={0: 0.0, 2: 5.0})
    of_classes = weighted.weights(batch_of(None, labels))
    assert of_classes is not None
    assert of_classes.tolist() == [[[[0, 1, 5], [5, 1, 0]]]]
    both = weighted.weights(batch_of(of_map, labels))
    assert both is not None
    torch.testing.assert_close(both, torch.tensor([[[[0, 0.2, 5], [5, 1, 0]]]]))
    torch.testing.assert_close(plain.weights(batch_of(of_map, labels)), weights_to_float(of_map))


def test_classes_of_a_smaller_source_weigh_the_pixels_of_its_target() -> None:
    labels = torch.tensor([[[[0, 1]]]], dtype=torch.int32)
    assert weights_of_classes(labels, {1: 3.0}, 2, 4).tolist() == [[[[1, 1, 3, 3]] * 2]][0:1]


def test_the_cache_keeps_weights_and_reads_files_that_have_none(tmp_path: Path) -> None:
    layout = save_pairs(tmp_path / "pairs")
    preprocessing = Preprocessing("none", 1, 1, 1, 1, flip=False, size_multiple=1, min_size=1)
    cache = SampleCache(tmp_path / "cache")
    for _ in range(2):
        kept = CachedLayout(layout, preprocessing, cache).read(0).weights
        assert kept is not None
        assert kept.tolist() == [WEIGHTS.tolist()]
    plain = PairedFolders(
        source_folder=tmp_path / "pairs" / "A", target_folder=tmp_path / "pairs" / "B", instance_folder=None
    )
    other = CachedLayout(plain, preprocessing, SampleCache(tmp_path / "other"))
    assert other.read(0).weights is None
    files = list((tmp_path / "other").rglob("*.pt"))
    maps = torch.load(files[0], weights_only=True)
    del maps["weights"]  # as an earlier version wrote them
    for file in files:
        torch.save(maps, file)
    assert other.read(0).weights is None
    assert all("weights" not in torch.load(file, weights_only=True) for file in files)  # not decoded again
