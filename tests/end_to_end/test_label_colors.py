"""The journey of label maps that are drawn in colours and have no instance maps, to photos."""

import re
from pathlib import Path

import numpy as np
import pytest
import torch

from data.batch import DataError
from data.files.image_files import read_rgb
from inference.output_folder import gallery_image
from tests.conftest import save_image, write_tiny_config
from tests.runs import run, translate
from tests.tools.serve.services import model_of

COLORS = np.array([[70, 130, 180], [128, 64, 128], [0, 0, 142], [0, 0, 0]], np.uint8)
FILE = "sky: [70, 130, 180]\nroad: [128, 64, 128]\ncar: [0, 0, 142]\nignored: [[0, 0, 0]]\n"
CROP = ["data.preprocess=resize_and_crop", "data.load_width=64", "data.load_height=32"]
CROP += ["data.crop_width=32", "data.crop_height=32"]
INSTANCES = ["data.instances=[car]"]


def write_pairs(root: Path) -> None:
    rng = np.random.default_rng(0)
    for split, names in (("train", "abc"), ("val", "d"), ("test", "ef")):
        for name in names:
            ids = rng.integers(0, 4, (4, 8)).repeat(8, 0).repeat(8, 1)
            save_image(root / f"{split}_label" / f"{name}.png", COLORS[ids])
            save_image(root / f"{split}_img" / f"{name}.png", (COLORS[ids] // 2 + 60).astype(np.uint8))


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The configuration of a finished run, `runs/tiny`; the file of its colours is gone."""
    folder = tmp_path_factory.mktemp("journey")
    write_pairs(folder / "pairs")
    file = folder / "colors.yaml"
    file.write_text(FILE)
    config = write_tiny_config(folder)
    settings = ["data.layout=paired_folders", f"data.root={folder / 'pairs'}", f"data.label_colors={file}"]
    run(config, *settings, *CROP, *INSTANCES, "init.distribution=normal:0.3")
    file.unlink()
    return config


def run_of(config: Path) -> Path:
    return config.parent / "runs" / "tiny"


def test_plan_and_validation_show_names_and_colours(trained: Path) -> None:
    log = (run_of(trained) / "log.txt").read_text()
    assert "classes        3 by colours: sky, road, car" in log
    assert "--instances" not in log
    shown = read_rgb(run_of(trained) / "web" / "images" / "sample_0_source.png")
    assert {tuple(color) for color in shown.flatten(1).T.tolist()} <= {tuple(color) for color in COLORS.tolist()}


def test_galleries_have_a_legend(trained: Path, tmp_path: Path) -> None:
    translate("--checkpoint", str(run_of(trained)), "--output", str(tmp_path))
    assert "tools.playground" in (run_of(trained) / "web" / "index.html").read_text()
    for page in (run_of(trained) / "web" / "index.html", tmp_path / "index.html"):
        swatches = re.findall(r'<li><i style="background: #(\w+)"></i>(\w+)</li>', page.read_text())
        assert swatches == [("4682b4", "sky"), ("804080", "road"), ("00008e", "car"), ("000000", "ignored")]


def test_the_service_says_that_it_takes_colours(trained: Path) -> None:
    model = model_of("--checkpoint", run_of(trained))
    assert (model["inputs"], model["source_channels"], model["source_range"]) == ({"source": "class colours"}, 3, None)


def test_a_split_a_folder_and_a_file_are_translated_alike(trained: Path, tmp_path: Path) -> None:
    checkpoint_option, size = ["--checkpoint", str(run_of(trained))], ["--opt-level", "O0", "--size", "own"]
    folder = trained.parent / "pairs" / "test_label"
    inputs = {"split": [], "folder": ["--input", str(folder)], "file": ["--input", str(folder / "e.png")]}
    for name, chosen in inputs.items():
        translate(*checkpoint_option, *chosen, *size, "--output", str(tmp_path / name))
    made = [read_rgb(tmp_path / name / "e.png") for name in inputs]
    assert made[0].float().std() > 1
    assert torch.equal(made[0], made[1])
    assert torch.equal(made[0], made[2])
    shown = read_rgb(tmp_path / "file" / gallery_image("source", "e"))
    assert torch.equal(shown, read_rgb(folder / "e.png"))


def test_another_colour_is_named(trained: Path, tmp_path: Path) -> None:
    pixels = COLORS[np.zeros((32, 64), int)]
    pixels[7, 9] += 1
    save_image(tmp_path / "in" / "x.png", pixels)
    with pytest.raises(DataError, match=r"x\.png: pixel \(row 7, column 9\) has the colour \[71, 131, 181\]"):
        translate("--checkpoint", str(run_of(trained)), "--input", str(tmp_path / "in"), "--output", str(tmp_path))
