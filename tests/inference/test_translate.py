"""Images larger than a tile are translated like whole images, with arrays in temporary files."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from torch import Tensor, nn

from data.batch import Batch
from data.conditioning import Conditioning, ValueRange
from data.files.image_files import StoredForm, read_stored
from data.files.stored_image import pixels_allowed
from data.files.tiff_tags import file_tags, write_tiff
from data.map_reader import MapReader
from data.preprocessing import Preprocessing
from inference.inputs import ListedImages
from inference.output_folder import ImageStore, OutputFolder
from inference.outputs import Results
from inference.predictor import Predictor
from inference.reading import NoDataRule, SourceValues, read_padded
from inference.tiling import TiledNetwork
from inference.translate import SampleTranslator
from metrics.evaluator import Evaluator
from models.global_generator import GlobalGenerator
from tests.images import GEO_TAGS, bands, tifffile
from tests.inference.test_tiling import GLOBAL, lively
from utils.device import Precision
from utils.mapped_memory import mapped_array

FORM = StoredForm(3, "data.source_channels", is_8_bit=False)
TILE = 16
SIZE = (90, 61)  # sides that must be padded


@pytest.fixture(scope="module")
def network() -> nn.Module:
    return lively(GlobalGenerator(**GLOBAL))


def sample_translator(
    folder: Path, network: nn.Module, path: Path, suffix: str = ".tif", tile: int = TILE, **options: Any
) -> SampleTranslator:
    """Return a translator of a file to `folder`/out, with ranges of values unless it is 8-bit RGB."""
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
        tiles=TiledNetwork(network, tile=tile, size_multiple=4, min_size=8, folder=folder),
        target_dtype=torch.float32 if stored else torch.uint8,
        **options,
    )
    rule = Preprocessing("none", 8, 8, 8, 8, flip=False, size_multiple=4, min_size=8)
    store = ImageStore(FORM if stored else None, suffix)
    results = Results(OutputFolder(folder / "out", layout, store), Evaluator(), predictor)
    no_data = NoDataRule(None, "source", values, predictor.target_dtype)
    return SampleTranslator(results, rule, SourceValues(values), True, no_data)


def with_tiles(translator: SampleTranslator, tiles: TiledNetwork | None) -> SampleTranslator:
    results = translator.results
    changed = Results(results.folder, results.evaluator, replace(results.predictor, tiles=tiles))
    return replace(translator, results=changed, problems=[], warned=[])


def at_once(large: SampleTranslator) -> Tensor:
    """Return the translation of the sample in memory, without tiles."""
    read = read_padded(large.results.folder.layout, large.preprocessing, 0, keeps_size=True)
    translated = with_tiles(large, None).results.predictor.translate(Batch.of([read.padded]))
    return read.window.cut(translated[0])


def pixels() -> np.ndarray:
    return bands(0, *SIZE)[:3]


def save_tiff(path: Path) -> Path:
    options = {"compression": "zlib", "rowsperstrip": 7, "planarconfig": "contig", "extratags": GEO_TAGS}
    tifffile().imwrite(path, pixels().transpose(1, 2, 0), photometric="minisblack", metadata=None, **options)
    return path


@pytest.fixture
def mapped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[list[int]]:
    """Keep all arrays of images in temporary files; return their sizes."""
    sizes = list[int]()

    def recorded(folder: Path, shape: Sequence[int], dtype: Any) -> np.ndarray:
        sizes.append(prod(shape))
        return mapped_array(folder, shape, dtype)

    monkeypatch.setattr("data.files.stored_image._MAPPED_BYTES", 0)
    monkeypatch.setattr("data.files.stored_image.mapped_array", recorded)
    monkeypatch.setattr("utils.mapped_memory._STRIP_PIXELS", 700)
    with pixels_allowed(5, mapped_in=tmp_path):
        yield sizes


def test_a_file_may_be_larger_than_the_memory(tmp_path: Path, network: nn.Module, mapped: list[int]) -> None:
    large = sample_translator(tmp_path, network, save_tiff(tmp_path / "x.tif"))
    expected = at_once(large)
    mapped.clear()
    list(large.translate([0], 1))
    assert mapped == [3 * 90 * 61, 3 * 90 * 61, 3 * 92 * 64]  # samples, in the order of samples, padded
    written = read_stored(tmp_path / "out" / "x.tif", FORM)
    assert written.shape == (3, *SIZE)
    assert (written - expected).abs().max() < 60000 / 5000
    assert len(file_tags(tmp_path / "out" / "x.tif").georeferencing) == len(GEO_TAGS)
    with Image.open(tmp_path / "out" / "gallery" / "translated" / "x.png") as image:
        assert image.size == SIZE[::-1]
    assert not list(tmp_path.glob("tmp*"))
    before = (tmp_path / "out" / "x.tif").read_bytes()
    assert large.keep(0)
    (tmp_path / "out" / "x.tif").write_bytes(before[: len(before) // 2])
    assert not large.keep(0)
    write_tiff(tmp_path / "out" / "x.tif", torch.zeros(3, 5, 6))
    assert large.keep(0)
    assert "x.tif: is 6x5, expected 61x90. Remove it" in large.problems[0]


@pytest.mark.parametrize("tile", [TILE, 1000])
@pytest.mark.usefixtures("mapped")
def test_pixels_without_data_stay_without_data(tmp_path: Path, network: nn.Module, tile: int) -> None:
    image = pixels().astype(np.float32)
    image[:, :9], image[0, 9:50, 40:], image[:, 60, 3] = np.nan, np.inf, -9999
    options = {"planarconfig": "contig", "extratags": [*GEO_TAGS, (42113, 2, None, "-9999", True)]}
    tifffile().imwrite(tmp_path / "x.tif", image.transpose(1, 2, 0), photometric="minisblack", metadata=None, **options)
    translator = sample_translator(tmp_path, network, tmp_path / "x.tif", tile=tile)
    list(translator.translate([0], 1))
    assert not translator.problems
    written = tifffile().imread(tmp_path / "out" / "x.tif").transpose(2, 0, 1)
    missing = (~np.isfinite(image) | (image == -9999)).any(0)
    assert np.array_equal(written == -9999, np.stack([missing] * 3))
    assert np.isfinite(written).all()
    assert file_tags(tmp_path / "out" / "x.tif").no_data == -9999
    assert translator.keep(0)


def test_an_image_that_needs_more_than_the_memory_is_refused_before_it_is_translated(
    tmp_path: Path, network: nn.Module, monkeypatch: pytest.MonkeyPatch
) -> None:
    translator = sample_translator(tmp_path, network, save_tiff(tmp_path / "x.tif"))
    whole = with_tiles(translator, None)
    monkeypatch.setattr("inference.translate._SMALL", 100)
    monkeypatch.setattr("inference.translate._PROBE", 16)
    monkeypatch.setattr("inference.translate.bytes_of_device", lambda device: 10**5)
    list(whole.translate([0], 1))
    (problem,) = whole.problems
    pattern = r"x: a translation of 64x92 pixels in one piece needs about \S+ GB, and 0.0001 GB are available"
    assert re.match(pattern, problem)
    assert not (tmp_path / "out/x.tif").exists()
    list(translator.translate([0], 1))
    assert whole.problems == [problem]  # none in tiles
    assert (tmp_path / "out/x.tif").exists()


def test_a_batch_that_needs_more_than_the_memory_is_translated_image_by_image(
    tmp_path: Path, network: nn.Module, monkeypatch: pytest.MonkeyPatch
) -> None:
    translator = sample_translator(tmp_path, network, save_tiff(tmp_path / "x.tif"))
    whole = with_tiles(translator, None)
    image = whole._read(0)
    needed = 1e-6 * image.padded.source.shape[-2] * image.padded.source.shape[-1]
    monkeypatch.setattr("inference.translate._SMALL", 100)
    monkeypatch.setattr(Predictor, "bytes_per_pixel", lambda self, part: 1e-6)
    monkeypatch.setattr("inference.translate.bytes_of_device", lambda device: 1.5 * needed)
    assert all(whole._translated([image, image]))
    assert not whole.problems


@pytest.mark.parametrize(
    ("crop", "norm", "is_windowed"),
    [(16, "instance", False), (40, "instance", False), (16, "batch", False), (16, "instance", True)],
)
def test_an_image_much_larger_than_the_crops_is_reported_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, crop: int, norm: Any, is_windowed: bool
) -> None:
    network = lively(GlobalGenerator(**GLOBAL, norm=norm))
    translator = sample_translator(tmp_path, network, save_tiff(tmp_path / "x.tif"))
    tiles = TiledNetwork(network, tile=TILE, size_multiple=4, min_size=8, folder=tmp_path, overlap=8)
    rule = replace(translator.preprocessing, mode="resize_and_crop", crop_height=crop, crop_width=crop)
    translator = replace(with_tiles(translator, tiles if is_windowed else None), preprocessing=rule)
    for _ in range(2):
        list(translator.translate([0], 1))
    is_reported = crop == 16 and norm == "instance" and not is_windowed
    assert caplog.text.count("Compare with --norm-window 32") == int(is_reported)
