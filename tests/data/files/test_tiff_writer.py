"""Images in TIFF files with the tags and the structure of their sources."""

from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from data.files.tiff_tags import file_tags, scaled_georeference, write_tiff
from tests.images import GEO_TAGS, heights, tifffile

NAMES = '<GDALMetadata><Item name="DESCRIPTION" sample="0" role="description">Höhe</Item></GDALMetadata>'


def rgb(height: int, width: int) -> np.ndarray:
    """A (3, height, width) uint8 image."""
    return np.random.default_rng(0).integers(0, 256, (3, height, width), np.uint8)


def pyramid(path: Path, height: int, width: int, tile: tuple[int, int] = (32, 16), **options: Any) -> None:
    """Write a tiled RGB image with one lower level."""
    with tifffile().TiffWriter(path) as writer:
        for number, size in enumerate(((height, width), (height // 2, width // 2))):
            pixels = rgb(*size).transpose(1, 2, 0)
            of_first = options if number == 0 else {}
            writer.write(pixels, photometric="rgb", tile=tile, subfiletype=number, metadata=None, **of_first)


def test_an_image_has_the_tags_of_its_source_at_its_own_size(tmp_path: Path) -> None:
    source, path = tmp_path / "source.tif", tmp_path / "x.tif"
    tags = [*GEO_TAGS, (42112, 2, None, NAMES.encode(), True)]
    tifffile().imwrite(source, heights(0), extratags=tags, resolution=(100, 50), resolutionunit=3, metadata=None)
    before = {code: value for code, _, _, value, _ in GEO_TAGS}
    for height, width, scale, factors in [
        (32, 40, 1.0, (1, 1)),
        (64, 80, 2.0, (2, 2)),
        (16, 20, 1.0, (0.5, 0.5)),  # resized, where the scale is another
        (64, 20, 1.0, (2, 0.5)),
        (8, 10, 0.25, (0.25, 0.25)),
    ]:
        write_tiff(path, torch.from_numpy(heights(1, height, width)[None]), source, scale, no_data=-9999)
        made = file_tags(path)
        assert {tag[0]: tag[3] for tag in made.georeferencing} == scaled_georeference(before, *factors)
        assert made.pixels_per_cm == pytest.approx((100 * factors[1], 50 * factors[0]))
        assert (made.band_names, made.no_data) == ({0: "Höhe"}, -9999)
    write_tiff(path, torch.from_numpy(np.zeros((2, 32, 40), np.float32)), source)
    assert not file_tags(path).band_names  # the bands are others
    write_tiff(path, torch.from_numpy(rgb(32, 40)), tmp_path / "source.png")
    assert not file_tags(path)


@pytest.mark.parametrize("bands", [1, 3])
def test_a_pyramid_becomes_a_pyramid_of_the_means_of_its_pixels(tmp_path: Path, bands: int) -> None:
    pyramid(tmp_path / "source.tif", 75, 101, resolution=(4e4, 4e4), resolutionunit=3)
    pixels = rgb(75, 101)[:bands]
    write_tiff(tmp_path / "x.tif", torch.from_numpy(pixels), tmp_path / "source.tif")
    with tifffile().TiffFile(tmp_path / "x.tif") as file:
        levels = [level.asarray().reshape(*level.shape[:2], bands) for level in file.series[0].levels]
        assert [page.tile for page in file.pages] == [(32, 16)] * 3
    assert [level.shape[:2] for level in levels] == [(75, 101), (38, 51), (19, 26)]
    assert np.array_equal(levels[0].transpose(2, 0, 1), pixels)
    for above, level in pairwise(levels):
        padded = np.pad(above, [(0, side % 2) for side in above.shape[:2]] + [(0, 0)], mode="edge").astype(float)
        means = (padded[::2, ::2] + padded[1::2, ::2] + padded[::2, 1::2] + padded[1::2, 1::2]) / 4
        assert np.abs(level - means).max() <= 0.5
    assert file_tags(tmp_path / "x.tif").pixels_per_cm == (4e4, 4e4)


def test_pixels_without_data_are_not_mixed_into_lower_levels(tmp_path: Path) -> None:
    pyramid(tmp_path / "source.tif", 64, 64, tile=(16, 16))
    pixels = np.where(np.arange(64) % 2, -9999, 100).astype(np.int16)[None, None].repeat(64, 1)
    write_tiff(tmp_path / "x.tif", torch.from_numpy(pixels), tmp_path / "source.tif", no_data=-9999)
    with tifffile().TiffFile(tmp_path / "x.tif") as file:
        assert [set(np.unique(level.asarray())) <= {-9999, 100} for level in file.series[0].levels] == [True] * 3


def test_tiles_without_a_pyramid_stay_tiles(tmp_path: Path) -> None:
    tifffile().imwrite(tmp_path / "source.tif", np.zeros((40, 50), np.uint8), tile=(16, 48))
    write_tiff(tmp_path / "x.tif", torch.from_numpy(rgb(80, 100)), tmp_path / "source.tif", 2)
    with tifffile().TiffFile(tmp_path / "x.tif") as file:
        assert [page.tile for page in file.pages] == [(16, 48)]
        assert np.array_equal(file.asarray().transpose(2, 0, 1), rgb(80, 100))


def test_a_large_tiff_has_wide_positions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for limit, is_big in ((2**32, False), (1000, True)):
        monkeypatch.setattr("data.files.tiff_tags._MAX_CLASSIC_BYTES", limit)
        write_tiff(tmp_path / "x.tif", torch.from_numpy(rgb(32, 40)))
        with tifffile().TiffFile(tmp_path / "x.tif") as file:
            assert file.is_bigtiff == is_big
            assert np.array_equal(file.asarray().transpose(2, 0, 1), rgb(32, 40))
