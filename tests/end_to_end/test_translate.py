"""test.py as a user runs it, on splits, on folders, and on joined pictures."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch

from configs import build
from data.batch import Batch
from data.conditioning import images_to_uint8
from data.facades.dataset import SyntheticFacades
from data.files.image_files import read_rgb
from inference.load import load_generator
from tests.conftest import save_image, write_tiny_config
from tests.runs import translate, untrained_run
from utils.checkpoint_folder import checkpoint_path


def pixels(folder: Path) -> dict[str, torch.Tensor]:
    return {path.stem: read_rgb(path).int() for path in folder.glob("facade_*.png")}


def test_the_test_split_is_translated_with_names_sheet_and_metrics(tiny_run: Path, tmp_path: Path) -> None:
    translate("--checkpoint", str(tiny_run), "--output", str(tmp_path / "out"), "data.flip=false")
    images = {f"facade_0000{number}.png" for number in range(3)}
    reports = {"contact_sheet.png", "gallery", "index.html", "metrics.json"}
    assert {path.name for path in (tmp_path / "out").iterdir()} == images | reports
    assert read_rgb(tmp_path / "out" / "facade_00000.png").shape == (3, 32, 32)
    report = json.loads((tmp_path / "out" / "metrics.json").read_text())
    assert set(report["images"]) == {"facade_00000", "facade_00001", "facade_00002"}
    assert set(report["mean"]) == {"l1", "psnr", "ssim", "ms_ssim", "gradient", "target_gradient", "sharpness"}
    l1 = [image["l1"] for image in report["images"].values()]
    assert report["mean"]["l1"] == pytest.approx(sum(l1) / 3)
    assert 0 < report["constant_color_floor"]["l1"] < 0.3
    assert report["step"] == 4


def test_the_picture_is_what_the_generator_makes_of_the_source(tiny_run: Path, tmp_path: Path) -> None:
    translate("--checkpoint", str(tiny_run), "--output", str(tmp_path / "out"), "--opt-level", "O0")
    trained = load_generator(checkpoint_path(tiny_run, 4))
    sample = SyntheticFacades(split="test", seed=0, n_samples=3, height=32, width=32).read(1)
    with torch.no_grad():
        fake = trained.generator.eval()(build.data_facts(trained.config).conditioning(Batch.of([sample])))
    assert torch.equal(read_rgb(tmp_path / "out" / "facade_00001.png"), images_to_uint8(fake)[0])


def test_every_precision_and_batch_size_gives_nearly_the_same(tiny_run: Path, tmp_path: Path) -> None:
    arguments = ["--checkpoint", str(tiny_run), "--opt-level"]
    translate(*arguments, "O0", "--output", str(tmp_path / "float32"))
    exact = pixels(tmp_path / "float32")
    for level in (["O3"], ["O0", "--batch-size", "2"]):
        output = tmp_path / "".join(level)
        translate(*arguments, *level, "--output", str(output))
        differences = {name: (exact[name] - image).abs() for name, image in pixels(output).items()}
        assert differences.keys() == exact.keys()
        assert max(difference.float().mean().item() for difference in differences.values()) < 1.5, level
        assert max(difference.max().item() for difference in differences.values()) <= (16 if level[0] != "O0" else 1)


def noise(height: int, width: int, seed: int) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 256, (height, width, 3), dtype=np.uint8)


def test_joined_pictures_are_a_data_set_and_as_input_one_source(tmp_path: Path) -> None:
    for folder in ("set/train", "set/others"):
        save_image(tmp_path / folder / "x.png", noise(32, 80, 0))
    save_image(tmp_path / "left" / "x.png", noise(32, 80, 0)[:, :40])
    settings = ["data.layout=side_by_side", f"data.root={tmp_path / 'set'}", "data.instance_edges=false"]
    arguments = ["--checkpoint", str(untrained_run(write_tiny_config(tmp_path), *settings)), "--opt-level", "O0"]

    def translated(name: str, *options: str) -> torch.Tensor:
        translate(*arguments, "--output", str(tmp_path / name), *options)
        return read_rgb(tmp_path / name / "x.png")

    half = translated("half", "--input", str(tmp_path / "left"))
    assert torch.equal(translated("split", "--split", "others"), half)
    assert not (tmp_path / "half" / "metrics.json").exists()
    assert (tmp_path / "split" / "metrics.json").exists()
    assert translated("whole", "--input", str(tmp_path / "set" / "others")).shape == (3, 32, 80)
