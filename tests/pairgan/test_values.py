"""pairgan.py takes and returns images that are not 8-bit RGB in their units, as test.py does."""

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

import pairgan
from data.files.image_files import write_png
from tests.pairgan.conftest import LARGE_WEIGHTS, returning, rng

DATA = ["data.layout=paired_folders", "data.root=.", "data.instance_edges=false", LARGE_WEIGHTS]
GREY_16 = ["data.source_channels=1", "data.source_range=[100,50000]", "data.target_channels=1"]
GREY_16 += ["data.target_range=[0,60000]", "data.target_files=uint16.png"]
STACK = ["data.source_folder=[{split}_label,{split}_depth]", "data.n_classes=3", "data.source_channels=2"]
STACK += ["data.source_range=[0,9000,-1,1]"]
BYTES = ["data.source_channels=4", "data.target_channels=2"]  # an original's file has no ranges


@pytest.fixture(scope="module")
def grey(tmp_path_factory: pytest.TempPathFactory) -> pairgan.Model:
    """A model that returns its 16-bit source."""
    return returning("source", tmp_path_factory.mktemp("grey"), {"source": "floatx1"}, "uint16", *DATA, *GREY_16)


def test_16_bit_files_are_translated_in_their_unit(
    grey: pairgan.Model, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    levels = rng.integers(0, 1 << 16, (21, 34), dtype=np.uint16)
    Image.fromarray(levels).save(tmp_path / "x.png")
    np.save(tmp_path / "x.npy", levels)
    assert (grey.inputs, grey.output) == ({"source": ("float32", 1)}, ("uint16", 1))
    files = (tmp_path / "x.png", tmp_path / "x.npy")
    for given in (levels, levels[None], levels[..., None], Image.fromarray(levels), *files):
        found = grey(given)
        assert found.dtype == np.uint16
        assert np.array_equal(found, levels[None])
    monkeypatch.setattr(sys, "argv", ["x", str(grey.path), str(tmp_path / "x.png"), str(tmp_path / "new.png")])
    pairgan.main()
    assert np.array_equal(np.asarray(Image.open(tmp_path / "new.png")), levels)


def test_bytes_of_four_channels_and_images_next_to_label_maps(tmp_path: Path) -> None:
    pixels = rng.integers(0, 256, (8, 9, 4), dtype=np.uint8)
    (tmp_path / "bytes").mkdir()
    model = returning("source", tmp_path / "bytes", {"source": "uint8x4"}, "uint8", *DATA, *BYTES)
    for given in (pixels, pixels.transpose(2, 0, 1)):
        assert np.array_equal(model(given), pixels.transpose(2, 0, 1))
    with pytest.raises(pairgan.ImageError, match=r"uint16, expected \(H, W, 4\) uint8"):
        model(pixels.astype(np.uint16))
    types = {"source": "uint8x1", "source_images": "floatx2"}
    stack = returning("source_images", tmp_path, types, "float", *DATA, *STACK)
    images = rng.random((2, 8, 9), dtype=np.float32)
    assert np.array_equal(stack(np.zeros((8, 9), np.uint8), source_images=images), images)


def save_deep_colours(path: Path) -> None:
    write_png(path, torch.zeros((3, 8, 8), dtype=torch.uint16))


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        (np.zeros((8, 8), np.uint8), r"source: holds 8 bits, .* 50000\."),
        (np.full((8, 8), np.nan, np.float32), r"expected \(H, W, 1\) finite values"),
        (np.broadcast_to(np.uint16(1), (10_000, 10_000)), r"\(H, W, 1\) finite values of 1 to 89478485 pixels"),
        (np.zeros((0, 8), np.uint16), r"\(0, 8, 1\) uint16, expected"),
        (Image.new("P", (8, 8)), "source: holds P pixels, which Pillow converts"),
        (save_deep_colours, r"x\.png: holds RGB;16B pixels, which Pillow converts\. Give an array, \.npy or TIFF"),
    ],
)
def test_other_values_are_refused_in_one_line(grey: pairgan.Model, tmp_path: Path, given: Any, problem: str) -> None:
    if callable(given):
        given(tmp_path / "x.png")
        given = tmp_path / "x.png"
    with pytest.raises(pairgan.ImageError, match=problem) as caught:
        grey(given)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("tags", [{274: 6}, {262: 0}, {254: 1}, {255: 2}, {339: 2}])
def test_a_tiff_with_other_pixels_than_pillow_reads_is_refused(tmp_path: Path, tags: dict[int, int]) -> None:
    Image.fromarray(np.zeros((4, 5), np.uint8)).save(tmp_path / "x.tif", tiffinfo=tags)
    for holds in ("RGB", "ids", pairgan.VALUES):
        if holds == pairgan.VALUES and tags == {339: 2}:
            continue  # tifffile reads signed numbers
        with pytest.raises(pairgan.ImageError, match=r"x: has unsupported values of the TIFF tags \[\d+\]"):
            pairgan._read(tmp_path / "x.tif", "x", holds, 1)


def test_a_large_tiff_is_refused_before_it_is_decoded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tifffile = pytest.importorskip("tifffile")
    tifffile.imwrite(tmp_path / "x.tif", np.zeros((8, 9, 4), np.float64), photometric="minisblack")
    monkeypatch.setattr(tifffile.TiffPageSeries, "asarray", lambda *_, **__: pytest.fail("pixels were read"))
    with pytest.raises(pairgan.ImageError, match=r"has the shape \(8, 9, 4\), expected 3 channels"):
        pairgan._read(tmp_path / "x.tif", "x", pairgan.VALUES, 3)
    monkeypatch.setattr(pairgan, "MAX_PIXELS", 71)
    with pytest.raises(pairgan.ImageError, match=r"has the shape \(8, 9, 4\), expected 4 channels. Make it smaller"):
        pairgan._read(tmp_path / "x.tif", "x", pairgan.VALUES, 4)


def test_every_value_of_a_tag_is_checked(tmp_path: Path) -> None:
    tifffile = pytest.importorskip("tifffile")
    kinds: dict[str, Any] = {"photometric": "minisblack", "planarconfig": "contig", "extrasamples": [0, 1]}
    tifffile.imwrite(tmp_path / "x.tif", np.zeros((4, 5, 3), np.uint8), metadata=None, **kinds)
    with pytest.raises(pairgan.ImageError, match=r"TIFF tags \[338\]"):  # the second extra channel is alpha
        pairgan._read(tmp_path / "x.tif", "x", pairgan.VALUES, 3)
    palette = {"photometric": "palette", "colormap": np.full((3, 256), 200, np.uint16)}  # bytes; right are 16 bits
    tifffile.imwrite(tmp_path / "x.tif", np.zeros((4, 5), np.uint8), metadata=None, **palette)
    with pytest.raises(pairgan.ImageError, match=r"TIFF tags \[320\]"):
        pairgan._read(tmp_path / "x.tif", "x", "RGB", 3)


def test_tiles_beyond_their_image_are_refused(tmp_path: Path) -> None:
    tifffile = pytest.importorskip("tifffile")
    tifffile.imwrite(tmp_path / "x.tif", np.zeros((8, 9), np.uint8), tile=(16, 16), metadata=None)
    with tifffile.TiffFile(tmp_path / "x.tif", mode="r+") as file:
        for name in ("TileWidth", "TileLength"):
            file.pages[0].tags[name].overwrite(20000)
    for holds in ("RGB", pairgan.VALUES):
        with pytest.raises(pairgan.ImageError, match=r"TIFF tags \[322\]"):
            pairgan._read(tmp_path / "x.tif", "x", holds, 1)


def test_a_jpeg_of_many_scans_is_refused(tmp_path: Path) -> None:
    Image.new("RGB", (8, 8)).save(tmp_path / "x.jpg", progressive=True)
    content = (tmp_path / "x.jpg").read_bytes()
    assert pairgan._read(tmp_path / "x.jpg", "x", "RGB", 3).shape == (8, 8, 3)
    start, end = (content.rindex(mark) for mark in (b"\xff\xda", b"\xff\xd9"))
    (tmp_path / "x.jpg").write_bytes(content[:end] + content[start:end] * 500 + content[end:])
    with pytest.raises(pairgan.ImageError, match="more than 500 scans"):
        pairgan._read(tmp_path / "x.jpg", "x", "RGB", 3)
