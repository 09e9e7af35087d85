"""The folder of results: its files, what may not be overwritten, and the record of what made translations."""

from dataclasses import dataclass
from pathlib import Path
from unittest.mock import Mock

import numpy as np
import pytest
import torch

from configs import build
from configs.load import load_config
from data.batch import DataError
from data.files.tiff_tags import file_tags
from data.map_reader import MapReader
from data.paired_folders import PairedFolders
from inference.inputs import ListedImages, common_folder
from inference.load import LoadedGenerator
from inference.output_folder import ImageStore, OutputFolder, image_store, origin, settings_of
from inference.request import Request
from inference.requested_predictor import build_predictor
from tests.conftest import save_image
from tests.images import GEO_TAGS, noise_image, tifffile


@pytest.fixture
def rgb_config(tmp_path: Path) -> Path:
    (tmp_path / "rgb.yaml").write_text("data: {layout: paired_folders, root: somewhere}")
    return tmp_path / "rgb.yaml"


def test_listed_files_may_be_in_folders_above(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("a/x", "b/y"):
        save_image(tmp_path / f"{name}.png", np.zeros((4, 4, 3), np.uint8))
    monkeypatch.chdir(tmp_path / "b")
    layout = ListedImages([Path("../a/x.png"), Path("y.png"), Path("../b/y.png")], {}, reader=MapReader())
    assert layout.names == ["a/x", "b/y"]
    assert common_folder([Path("../a"), Path("../b")]) == tmp_path


def test_a_tiff_with_tags_becomes_a_tiff_at_its_place(tmp_path: Path, rgb_config: Path) -> None:
    (tmp_path / "in").mkdir()
    pixels, options = noise_image(0), {"photometric": "rgb", "metadata": None}
    for name, tags in {"place": GEO_TAGS, "plain": []}.items():
        tifffile().imwrite(tmp_path / "in" / f"{name}.tif", pixels.permute(1, 2, 0).numpy(), extratags=tags, **options)
    tifffile().imwrite(tmp_path / "in" / "slide.svs", np.zeros((32, 48, 3), np.uint8), tile=(16, 16), **options)
    layout = PairedFolders({"source": tmp_path / "in"})

    def folder(*settings: str) -> OutputFolder:
        store = image_store(build.data_facts(load_config(rgb_config, settings)))
        return OutputFolder(tmp_path / "out", layout, store)

    results = folder()
    assert [results.image(name).name for name in layout.names] == ["place.tif", "plain.png", "slide.tif"]
    results.store.write(results.image("place"), pixels, results.source(0))
    assert len(file_tags(results.image("place")).georeferencing) == len(GEO_TAGS)
    assert torch.equal(results.store.read(results.image("place")), pixels)
    for files, suffix in {"uint8.tif": ".tif", "uint8.npy": ".npy", "uint8.png": ".png"}.items():
        chosen = folder(f"data.target_files={files}")
        for index in (0, 1):
            file = chosen.image(layout.names[index])
            assert file.suffix == suffix
            chosen.store.write(file, pixels, chosen.source(index))
            assert torch.equal(chosen.store.read(file), pixels)
    assert folder("data.target_files=float32.tif").image("plain").suffix == ".png"  # translations are 8-bit RGB


def test_settings_that_change_translations_are_recorded(tmp_path: Path, rgb_config: Path) -> None:
    colors = {name: tmp_path / f"{name}.yaml" for name in ("two", "swapped")}
    for name, lines in zip(colors, (["a: [1, 2, 3]", "b: [4, 5, 6]"], ["b: [4, 5, 6]", "a: [1, 2, 3]"]), strict=True):
        colors[name].write_text("\n".join(lines))

    def recorded(*settings: str) -> dict[str, object]:
        return settings_of(load_config(rgb_config, settings))

    assert recorded() == {"data.layout": "paired_folders"}
    elsewhere = recorded("data.root=elsewhere", "data.workers=0", "data.rotation_degrees=[-5,5]", "run.seed=3")
    assert elsewhere == recorded()
    ranges = recorded("data.source_range=[0,1000]", "data.ignore_id=255", "features.regions=instances")
    assert ranges == {"data.layout": "paired_folders", "data.source_range": [0.0, 1000.0], "data.ignore_id": 255}
    assert len({recorded(f"data.label_colors={file}")["data.label_colors"] for file in colors.values()}) == 2


def test_a_new_option_is_compared_unless_it_is_excepted(rgb_config: Path) -> None:
    @dataclass(frozen=True)
    class MoreOptions(Request):
        sharpen: int = 0

    loaded = LoadedGenerator(rgb_config, load_config(rgb_config), 1, torch.nn.Identity())
    request = MoreOptions(sharpen=2, batch_size=4)
    recorded = origin(loaded, build_predictor(loaded, torch.device("cpu"), request), request, None, [])
    assert recorded["sharpen"] == 2
    assert "batch_size" not in recorded


@pytest.mark.parametrize(
    ("output", "names", "message"),
    [
        ("in/out", ["a"], r"--output: .*in holds inputs\."),
        ("inst", ["a"], r"inst holds inputs"),
        ("in/a.bmp", ["a"], r"a\.bmp is a file\. Choose another"),
        ("out", ["gallery/x"], r"gallery/x has the name of a result file\. Rename the input"),
    ],
)
def test_results_never_overwrite_inputs_nor_each_other(
    tmp_path: Path, output: str, names: list[str], message: str
) -> None:
    for folder in ("in", "inst"):
        for name in names:
            save_image(tmp_path / folder / f"{name}.bmp", np.zeros((8, 8), np.uint8))
    layout = PairedFolders({"source": tmp_path / "in", "instances": tmp_path / "inst"})
    with pytest.raises(DataError, match=message):
        OutputFolder(tmp_path / output, layout, ImageStore()).prepare("replace")


def test_inputs_are_not_overwritten_through_links(tmp_path: Path) -> None:
    save_image(tmp_path / "set" / "a.png", np.zeros((8, 8), np.uint8))
    (tmp_path / "links").mkdir()
    (tmp_path / "links" / "a.png").symlink_to(tmp_path / "set" / "a.png")
    layout = PairedFolders({"source": tmp_path / "links"})
    with pytest.raises(DataError, match=r"would overwrite the input .*a\.png"):
        OutputFolder(tmp_path / "set", layout, ImageStore()).prepare("refuse")


def test_a_second_process_may_not_write_into_the_same_folder(tmp_path: Path) -> None:
    folder = OutputFolder(tmp_path, Mock(), ImageStore())
    with folder.locked(), pytest.raises(DataError, match="another process writes to"), folder.locked():
        pass
    assert list((tmp_path / "gallery").iterdir()) == []
