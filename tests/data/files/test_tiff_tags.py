"""Tags of TIFF files, and TIFF files with the tags and the structure of their sources."""

from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from data.files.image_files import open_image
from data.files.tiff_tags import (
    KEYS,
    PIXEL_SCALE,
    TIE_POINTS,
    TRANSFORMATION,
    TiffTags,
    file_tags,
    scaled_georeference,
    write_tiff,
)
from tests.images import GEO_TAGS, bands, heights, tifffile

AREA = (1, 1, 0, 1, 1025, 0, 1, 1)
POINT = (1, 1, 0, 2, 1024, 0, 1, 1, 1025, 0, 1, 2)
HEIGHT_NAME = '<GDALMetadata><Item name="DESCRIPTION" sample="0" role="description">Höhe</Item></GDALMetadata>'
NAMES = '<GDALMetadata><Item name="STATISTICS_MEAN" sample="0">7</Item>'
NAMES += '<Item sample="1" role="description" name="DESCRIPTION">Grün &amp; B</Item></GDALMetadata>'


POINTS = {PIXEL_SCALE: (30.0, 20.0, 0.0), TIE_POINTS: (3.0, 2.0, 0.0, 5e5, 4e6, 0.0)}
NO_HEIGHT = (0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 1.0)
MATRIX = {TRANSFORMATION: (29.0, 3.0, 0.0, 5e5, 2.0, -31.0, 0.0, 4e6, *NO_HEIGHT)}


@pytest.mark.parametrize(
    ("tags", "keys", "scaled"),
    [
        (POINTS, AREA, {TIE_POINTS: (12.0, 4.0, 0.0, 5e5, 4e6, 0.0)}),
        (POINTS, POINT, {TIE_POINTS: (13.5, 4.5, 0.0, 5e5, 4e6, 0.0)}),
        (MATRIX, AREA, {TRANSFORMATION: (7.25, 1.5, 0.0, 5e5, 0.5, -15.5, 0.0, 4e6, *NO_HEIGHT)}),
        (MATRIX, POINT, {TRANSFORMATION: (7.25, 1.5, 0.0, 499988.375, 0.5, -15.5, 0.0, 4000007.0, *NO_HEIGHT)}),
    ],
)
def test_every_place_stays_where_it_is(tags: dict[int, Any], keys: tuple[int, ...], scaled: dict[int, Any]) -> None:
    """Keys say whether coordinates belong to the corners of pixels (AREA) or to their centres (POINT)."""
    pixel_size = {PIXEL_SCALE: (7.5, 10.0, 0.0)} if tags is POINTS else {}
    assert scaled_georeference(tags | {KEYS: keys}, 2, 4) == scaled | pixel_size | {KEYS: keys}


def tags_of(path: Path, *tags: tuple[int, int, int | None, Any, bool], **options: Any) -> TiffTags:
    """The tags of a TIFF that has these."""
    pixels = bands(0).transpose(1, 2, 0)
    tifffile().imwrite(path, pixels, photometric="minisblack", planarconfig="contig", extratags=tags, **options)
    return file_tags(path)


def test_tags_are_read(tmp_path: Path) -> None:
    tags = tags_of(
        tmp_path / "x.tif", *GEO_TAGS, (42112, 2, None, NAMES.encode(), True), (42113, 2, None, "nan ", True)
    )
    assert (tags.height, tags.width, tags.n_channels, tags.tile, tags.is_pyramid) == (32, 40, 4, None, False)
    assert [tag[0] for tag in tags.georeferencing] == [tag[0] for tag in GEO_TAGS]
    assert tags.band_names == {1: "Grün &amp; B"}
    assert tags.no_data is not None
    assert np.isnan(tags.no_data)
    assert tags.pixels_per_cm is None
    assert tags
    assert not tags_of(tmp_path / "plain.tif", metadata=None)
    assert not tags_of(tmp_path / "bad.tif", (42113, 2, None, "none", True))
    (tmp_path / "cut.tif").write_bytes((tmp_path / "x.tif").read_bytes()[:300])
    assert not file_tags(tmp_path / "cut.tif")


@pytest.mark.parametrize(
    ("options", "pixels_per_cm"),
    [
        ({"resolution": (300, 150), "resolutionunit": 2}, (300 / 2.54, 150 / 2.54)),
        ({"description": "Aperio Image|AppMag = 40|MPP = 0.25|Left = 3"}, (4e4, 4e4)),
        ({"description": "ImageJ=1.53\nunit=micron\n", "resolution": (2, 4), "resolutionunit": 1}, (2e4, 4e4)),
        ({"resolution": (300, 0), "resolutionunit": 2}, None),
        ({"resolution": (72, 72), "resolutionunit": 1}, None),
    ],
)
def test_the_resolution_is_read(
    tmp_path: Path, options: dict[str, Any], pixels_per_cm: tuple[float, float] | None
) -> None:
    found = tags_of(tmp_path / "x.tif", metadata=None, **options).pixels_per_cm
    assert found == (pixels_per_cm and pytest.approx(pixels_per_cm))


def test_a_turned_image_has_no_place_but_a_resolution(tmp_path: Path) -> None:
    turned = tags_of(tmp_path / "x.tif", *GEO_TAGS, (274, 3, 1, 6, True), resolution=(10, 20), resolutionunit=3)
    assert (turned.height, turned.width, turned.georeferencing) == (40, 32, [])
    assert turned.pixels_per_cm == (20, 10)


def test_the_image_that_is_read_counts(tmp_path: Path) -> None:
    with tifffile().TiffWriter(tmp_path / "x.tif") as writer:
        writer.write(np.zeros((8, 10, 3), np.uint8), photometric="rgb", subfiletype=1)
        writer.write(np.zeros((64, 80, 3), np.uint8), photometric="rgb", tile=(32, 16))
        writer.write(np.zeros((96, 80, 3), np.uint8), photometric="rgb")
    with open_image(tmp_path / "x.tif") as image:
        assert image.size == (64, 80)
    tags = file_tags(tmp_path / "x.tif")
    assert (tags.height, tags.width, tags.tile) == (64, 80, (32, 16))


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
    tags = [*GEO_TAGS, (42112, 2, None, HEIGHT_NAME.encode(), True)]
    tifffile().imwrite(source, heights(0), extratags=tags, resolution=(100, 50), resolutionunit=3, metadata=None)
    before = {code: value for code, _, _, value, _ in GEO_TAGS}
    for height, width, scale, factors in [
        (32, 40, 1.0, (1, 1)),
        (64, 80, 2.0, (2, 2)),
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
