"""Images larger than a tile are translated in parts as they are at once."""

import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from data.batch import Batch
from data.conditioning import Conditioning
from data.files.image_files import read_rgb
from data.files.pixel_rows import Bands, PixelRows
from data.files.pixels import StoredForm, StoredRows, read_stored
from data.files.tiff_tags import TiffTags
from data.files.tiff_writer import write_tiff
from data.map_reader import MapReader
from data.preprocessing import Preprocessing
from data.value_range import ValueRange
from inference.image_store import ImageStore
from inference.inputs import ListedImages
from inference.no_data import NoDataRule
from inference.output_folder import OutputFolder
from inference.outputs import Results
from inference.padding import read_padded
from inference.predictor import Predictor, Tiles
from inference.sample_translator import SampleTranslator
from inference.source_values import SourceValues
from inference.tiling import TiledNetwork
from metrics.evaluator import Evaluator
from models.global_generator import GlobalGenerator
from tests.conftest import save_image
from tests.images import GEO_TAGS, bands, save_npy, tifffile
from tests.inference.test_tiling import GLOBAL, lively
from utils.precision import Precision

FORM = StoredForm(3, "data.source_channels", is_8_bit=False)
TILE = 16
SIZE = (90, 61)  # of no multiples


@pytest.fixture(scope="module")
def network() -> nn.Module:
    return lively(GlobalGenerator(**GLOBAL))


def sample_translator(
    folder: Path, network: nn.Module, path: Path, suffix: str = ".tif", tile: int = TILE, **options: Any
) -> SampleTranslator:
    """A file, translated to `folder`/out: by ranges, where it is not 8-bit RGB."""
    stored = path.suffix != ".png"
    form = replace(FORM, allows_missing=path.suffix == ".tif")
    values = ValueRange.of([0, 60000]) if stored else None
    layout = ListedImages([path], {}, reader=MapReader(forms={"source": form} if stored else {}))
    predictor = Predictor(
        network,
        Conditioning(0, instance_edges=False, source_range=values, target_range=values),
        Precision("cpu", torch.float32, "O0"),
        torch.device("cpu"),
        torch.zeros(0, 3),
        tiles=Tiles(TiledNetwork(network, tile=tile, size_multiple=4, min_size=8, folder=folder), None),
        target_dtype=torch.float32 if stored else torch.uint8,
        **options,
    )
    rule = Preprocessing("none", 8, 8, 8, 8, flip=False, size_multiple=4, min_size=8)
    store = ImageStore(FORM if stored else None, suffix)
    results = Results(OutputFolder(folder / "out", layout, store), Evaluator(), predictor)
    source_form, no_data = form if stored else None, NoDataRule(None, "source", values, predictor.target_dtype)
    return SampleTranslator(layout, predictor, rule, results, SourceValues(values), source_form, True, no_data)


def at_once(large: SampleTranslator) -> Tensor:
    """The translation of the sample in memory, without tiles."""
    read = read_padded(large.layout, large.preprocessing, 0, keeps_size=True)
    translated = replace(large.predictor, tiles=None).translate(Batch.of([read.padded]))
    return read.window.cut(translated[0])


def pixels() -> np.ndarray:
    return bands(0, *SIZE)[:3]


def save_tiff(path: Path) -> Path:
    options = {"compression": "zlib", "rowsperstrip": 7, "planarconfig": "contig", "extratags": GEO_TAGS}
    tifffile().imwrite(path, pixels().transpose(1, 2, 0), photometric="minisblack", metadata=None, **options)
    return path


@pytest.mark.parametrize("flips", [False, True])
def test_a_file_is_read_and_written_in_parts(
    tmp_path: Path, network: nn.Module, monkeypatch: pytest.MonkeyPatch, flips: bool
) -> None:
    large = sample_translator(tmp_path, network, save_tiff(tmp_path / "x.tif"), flips=flips)
    expected = at_once(large)
    assert large.is_read_in_parts(0)
    n_rows = list[int]()

    def recording(height: int, width: int, read: Callable[[int, int], Tensor]) -> StoredRows:
        def recorded(top: int, bottom: int) -> Tensor:
            n_rows.append(bottom - top)
            return read(top, bottom)

        return StoredRows(height, width, recorded)

    monkeypatch.setattr("inference.image_store._ROWS", TILE)
    monkeypatch.setattr("data.files.pixels.StoredRows", recording)
    monkeypatch.setattr(PixelRows, "read_whole", None)
    list(large.translate([0], 1))
    assert max(n_rows) <= TILE + 2 * 4 + 2
    monkeypatch.undo()
    written = read_stored(tmp_path / "out" / "x.tif", FORM)
    assert written.shape == (3, *SIZE)
    assert (written - expected).abs().max() < 60000 / 5000
    assert len(TiffTags.of(tmp_path / "out" / "x.tif").georeferencing) == len(GEO_TAGS)
    assert read_rgb(tmp_path / "out" / "gallery" / "translated" / "x.png").shape == (3, *SIZE)
    assert not list(tmp_path.glob("tmp*"))


@pytest.mark.parametrize("tile", [TILE, 1000])
def test_pixels_without_data_stay_without_data(tmp_path: Path, network: nn.Module, tile: int) -> None:
    image = pixels().astype(np.float32)
    image[:, :9], image[0, 9:50, 40:], image[:, 60, 3] = np.nan, np.inf, -9999
    options = {"planarconfig": "contig", "extratags": [*GEO_TAGS, (42113, 2, None, "-9999", True)]}
    tifffile().imwrite(tmp_path / "x.tif", image.transpose(1, 2, 0), photometric="minisblack", metadata=None, **options)
    translator = sample_translator(tmp_path, network, tmp_path / "x.tif", tile=tile)
    assert translator.is_read_in_parts(0) == (tile == TILE)
    list(translator.translate([0], 1))
    assert not translator.problems
    written = tifffile().imread(tmp_path / "out" / "x.tif").transpose(2, 0, 1)
    missing = (~np.isfinite(image) | (image == -9999)).any(0)
    assert np.array_equal(written == -9999, np.stack([missing] * 3))
    assert np.isfinite(written).all()
    assert TiffTags.of(tmp_path / "out" / "x.tif").no_data == -9999
    assert translator.keep(0)


def test_a_picture_in_memory_is_written_in_parts(
    tmp_path: Path, network: nn.Module, monkeypatch: pytest.MonkeyPatch
) -> None:
    save_image(tmp_path / "x.png", (pixels() >> 8).astype(np.uint8).transpose(1, 2, 0))
    large = sample_translator(tmp_path, network, tmp_path / "x.png", ".png", flips=True)
    assert not large.is_read_in_parts(0)
    with monkeypatch.context() as patch:
        patch.setattr(Predictor, "translate", None)
        assert list(large.translate([0], 1)) == [1]
    difference = read_rgb(tmp_path / "out" / "x.png").int() - at_once(large).int()
    assert difference.abs().max() <= 1


def test_damage_is_found_before_the_work(tmp_path: Path, network: nn.Module) -> None:
    with_nan = pixels().astype(np.float32)
    with_nan[1, 88, 5] = np.nan
    save_npy(tmp_path / "x.npy", with_nan)
    large = sample_translator(tmp_path, network, tmp_path / "x.npy")
    assert list(large.translate([0], 1)) == [1]
    assert "x.npy: channel 2, row 88, column 5 holds nan" in large.problems[0]
    assert not (tmp_path / "out").exists()


def test_nothing_is_left_of_an_interrupted_image(
    tmp_path: Path, network: nn.Module, monkeypatch: pytest.MonkeyPatch
) -> None:
    save_npy(tmp_path / "x.npy", pixels())
    large = sample_translator(tmp_path, network, tmp_path / "x.npy", ".npy")
    translated = Predictor.translate_in_bands

    def interrupted(*arguments: Any) -> Iterator[Tensor]:
        for number, band in enumerate(translated(*arguments)):
            if number == 2:
                assert (tmp_path / "out" / ".x.npy.writing").exists()
                raise KeyboardInterrupt
            yield band

    monkeypatch.setattr(Predictor, "translate_in_bands", interrupted)
    with pytest.raises(KeyboardInterrupt):
        list(large.translate([0], 1))
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["gallery"]


def test_existing_translations_are_kept(tmp_path: Path, network: nn.Module) -> None:
    save_npy(tmp_path / "x.npy", pixels())
    large = sample_translator(tmp_path, network, tmp_path / "x.npy")
    list(large.translate([0], 1))
    written = tmp_path / "out" / "x.tif"
    before = written.read_bytes()
    assert large.keep(0)
    assert written.read_bytes() == before
    written.write_bytes(before[: len(before) // 2])
    assert not large.keep(0)
    write_tiff(written, Bands.of(np.zeros((3, 5, 6), np.float32)))
    assert large.keep(0)
    assert "x.tif: is 6x5, expected 61x90. Remove it" in large.problems[0]


@pytest.mark.parametrize("n_bytes", [10**5, 10**9])
def test_an_image_that_needs_more_than_the_memory_is_refused_before_it_is_translated(
    tmp_path: Path, network: nn.Module, monkeypatch: pytest.MonkeyPatch, n_bytes: int
) -> None:
    translator = sample_translator(tmp_path, network, save_tiff(tmp_path / "x.tif"))
    whole = replace(translator, predictor=replace(translator.predictor, tiles=None))
    monkeypatch.setattr("inference.sample_translator._SMALL", 100)
    monkeypatch.setattr("inference.sample_translator._PROBE", 16)
    monkeypatch.setattr("inference.sample_translator.bytes_of_device", lambda device: n_bytes)
    list(whole.translate([0], 1))
    if n_bytes == 10**9:
        assert not whole.problems
        return
    (problem,) = whole.problems
    pattern = r"x: a translation of 64x92 pixels in one piece needs about \S+ GB, there are 0.0001 GB. Add --tile 1024."
    assert re.fullmatch(pattern, problem)
    assert not (tmp_path / "out/x.tif").exists()
    list(translator.translate([0], 1))
    assert whole.problems == [problem]  # none in tiles
    assert (tmp_path / "out/x.tif").exists()


def test_a_batch_that_needs_more_than_the_memory_is_translated_image_by_image(
    tmp_path: Path, network: nn.Module, monkeypatch: pytest.MonkeyPatch
) -> None:
    translator = sample_translator(tmp_path, network, save_tiff(tmp_path / "x.tif"))
    whole = replace(translator, predictor=replace(translator.predictor, tiles=None))
    image = whole._read(0)
    needed = 1e-6 * image.padded.source.shape[-2] * image.padded.source.shape[-1]
    monkeypatch.setattr("inference.sample_translator._SMALL", 100)
    monkeypatch.setattr(Predictor, "bytes_per_pixel", lambda self, part: 1e-6)
    monkeypatch.setattr("inference.sample_translator.bytes_of_device", lambda device: 1.5 * needed)
    assert all(whole._translated([image, image]))
    assert not whole.problems


@pytest.mark.parametrize(
    ("crop", "mode", "norm", "window", "warns"),
    [
        (16, "crop", "instance", None, True),
        (16, "resize_and_crop", "instance", None, True),
        (40, "crop", "instance", None, False),
        (16, "scale_width", "instance", None, False),
        (16, "crop", "batch", None, False),
        (16, "crop", "instance", 32, False),
    ],
)
@pytest.mark.parametrize("tiled", [False, True])
def test_an_image_much_larger_than_the_crops_is_reported_once(
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    crop: int,
    mode: Any,
    norm: Any,
    window: int | None,
    warns: bool,
    tiled: bool,
) -> None:
    network = lively(GlobalGenerator(**GLOBAL, norm=norm))
    translator = sample_translator(tmp_path, network, save_tiff(tmp_path / "x.tif"))
    overlap = window // 4 if window else None
    tiles = TiledNetwork(network, tile=TILE, size_multiple=4, min_size=8, folder=tmp_path, overlap=overlap)
    predictor = replace(translator.predictor, tiles=Tiles(tiles, None) if tiled or window else None)
    rule = replace(translator.preprocessing, mode=mode, crop_height=crop, crop_width=crop)
    translator = replace(translator, predictor=predictor, preprocessing=rule)
    for _ in range(2):
        list(translator.translate([0], 1))
    assert caplog.text.count("Compare with --norm-window 32") == int(warns)
