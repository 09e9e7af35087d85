"""The journey of label maps that are drawn in colours and have no instance maps, to photos."""

import re
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch

import pairgan
from configs.load import config_from_dict, load_config
from configs.splits import open_split
from data.batch import DataError
from data.class_ids import connected_parts
from data.files.image_files import read_rgb
from inference.output_folder import gallery_image
from tests.conftest import save_image, write_tiny_config
from tests.runs import checkpoint, program_main, run, translate
from tests.tools.serve.services import model_of
from tools.check_data import __main__ as check_data

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
    run(config, *settings, *CROP, *INSTANCES, "init.gain=0.3")
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


def test_the_checkpoint_holds_the_colours(trained: Path) -> None:
    config = config_from_dict(checkpoint(trained, 4)["config"], "test")
    assert list(config.data.label_colors) == ["sky", "road", "car", "ignored"]
    assert config.data.n_classes == 0
    assert config == load_config(run_of(trained) / "config.yaml")


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


@pytest.mark.slow
def test_an_exported_program_takes_ids(trained: Path, tmp_path: Path) -> None:
    ids = np.arange(32 * 64).reshape(32, 64) // 300 % 3
    source = tmp_path / "x.png"
    save_image(source, COLORS[ids])
    command = ["--checkpoint", str(run_of(trained))]
    translate(*command, "--input", str(source), "--output", str(tmp_path / "out"), "--opt-level", "O0", "--size", "own")
    shutil.copytree(run_of(trained), tmp_path / "run")
    program_main("tools.export")(["--checkpoint", str(tmp_path / "run"), "--format", "onnx"])
    model = pairgan.load(tmp_path / "run" / "generator.onnx")
    assert (model.n_classes, list(model.inputs)) == (3, ["source"])  # edges are made in the program
    wanted = read_rgb(tmp_path / "out" / "x.png").permute(1, 2, 0).numpy().astype(int)
    assert abs(np.asarray(model(ids)).astype(int) - wanted).max() <= 1
    assert model.settings["data"]["label_colors"].keys() == {"sky", "road", "car", "ignored"}
    with pytest.raises(pairgan.ImageError, match=r"x\.png: give an \(H, W\) array of ids in label_colors. order\."):
        model(source)


def test_another_colour_ends_in_one_line(trained: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pixels = COLORS[np.zeros((32, 64), int)]
    pixels[7, 9] += 1
    save_image(tmp_path / "in" / "x.png", pixels)
    with pytest.raises(DataError, match=r"x\.png: pixel \(row 7, column 9\) has the colour \[71, 131, 181\]"):
        translate("--checkpoint", str(run_of(trained)), "--input", str(tmp_path / "in"), "--output", str(tmp_path))
    write_pairs(tmp_path / "pairs")
    save_image(tmp_path / "pairs" / "train_label" / "b.png", pixels)
    (tmp_path / "colors.yaml").write_text(FILE)
    with pytest.raises(SystemExit):
        check_data.main([str(tmp_path / "pairs"), f"data.label_colors={tmp_path / 'colors.yaml'}"])
    lines = capsys.readouterr().out.splitlines()
    assert lines[-1].startswith("1 problem in ")
    assert not any(line.startswith("ids ") for line in lines)


def test_regions_of_features_are_connected_parts(trained: Path, tiny_config: Path) -> None:
    data = ["data.layout=paired_folders", f"data.root={trained.parent / 'pairs'}", "data.n_classes=0"]
    (tiny_config.parent / "colors.yaml").write_text(FILE)
    data += [f"data.label_colors={tiny_config.parent / 'colors.yaml'}", *CROP, *INSTANCES]
    config = load_config(tiny_config, [*data, "features.n_channels=3"])
    layout = open_split(config, "train", needs_targets=True)
    sample = layout.read(0)
    assert torch.equal(sample.maps["instances"], connected_parts(sample.source, [2]))
    assert not [folder for folder in layout.folders if folder.path.name == "train_inst"]
    run(tiny_config, *data, "features.n_channels=3", "train.max_steps=1")
    assert open_split(load_config(tiny_config, data), "train", needs_targets=True).read(0).instances is None
