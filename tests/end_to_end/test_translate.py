"""test.py as a user runs it."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch

import train
from configs import build
from data.batch import Batch, DataError
from data.conditioning import images_to_uint8
from data.facades.dataset import SyntheticFacades
from data.files.image_files import read_rgb
from inference.load import load_generator
from tests.conftest import save_image
from tests.reliability.command_line import CommandLine
from tests.runs import translate, translation_script
from utils.checkpoint_folder import checkpoint_path


def pixels(folder: Path) -> dict[str, torch.Tensor]:
    return {path.stem: read_rgb(path).int() for path in folder.glob("facade_*.png")}


def test_the_test_split_is_translated_with_names_sheet_and_metrics(tiny_run: Path, tmp_path: Path) -> None:
    translate("--checkpoint", str(tiny_run), "--output", str(tmp_path / "out"))
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
        fake = trained.generator.eval()(build.build_conditioning(trained.config)(Batch.of([sample])))
    assert torch.equal(read_rgb(tmp_path / "out" / "facade_00001.png"), images_to_uint8(fake)[0])


@pytest.mark.parametrize("level", [["O1"], ["O3"], ["O3", "--dtype", "float16"], ["O0", "--batch-size", "2"]])
def test_every_precision_and_batch_size_gives_nearly_the_same(tiny_run: Path, tmp_path: Path, level: list[str]) -> None:
    arguments = ["--checkpoint", str(tiny_run), "--output"]
    translate(*arguments, str(tmp_path / "float32"), "--opt-level", "O0")
    translate(*arguments, str(tmp_path / "other"), "--opt-level", *level)
    exact, other = pixels(tmp_path / "float32"), pixels(tmp_path / "other")
    assert exact.keys() == other.keys()
    assert max((exact[name] - other[name]).abs().float().mean().item() for name in exact) < 1.5
    assert max((exact[name] - other[name]).abs().max().item() for name in exact) <= (16 if level[0] != "O0" else 1)


def test_the_newest_run_is_translated_to_a_folder_of_its_name_by_default(
    tiny_config: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    train.main(["--config", str(tiny_config), "run.name=older"])
    train.main(["--config", str(tiny_config), "run.name=newer"])
    monkeypatch.chdir(tmp_path)
    translate()
    assert (tmp_path / "results" / "newer" / "test_step4" / "facade_00002.png").is_file()


def test_a_folder_of_label_maps_is_translated_with_sub_folders_and_sizes(tiny_run: Path, tmp_path: Path) -> None:
    for name, size in (("a", (32, 48)), ("b/c", (45, 32))):
        labels = np.random.default_rng(0).integers(0, 12, size, dtype=np.uint8)
        save_image(tmp_path / "in" / f"{name}.png", labels)
        save_image(tmp_path / "inst" / f"{name}.png", labels.astype(np.uint16))
    arguments = ["--checkpoint", str(tiny_run), "--input", str(tmp_path / "in"), "--batch-size", "4"]
    translate(*arguments, "--instances", str(tmp_path / "inst"), "--output", str(tmp_path / "out"))
    assert read_rgb(tmp_path / "out" / "a.png").shape == (3, 32, 48)
    assert read_rgb(tmp_path / "out" / "b" / "c.png").shape == (3, 45, 32)
    assert not (tmp_path / "out" / "metrics.json").exists()


def test_targets_of_a_folder_are_compared(tiny_config: Path, tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    for split in ("train", "test"):
        for name in ("x", "y"):
            for side in "AB":
                save_image(tmp_path / f"{split}_{side}" / f"{name}.png", rng.integers(0, 255, (32, 32, 3), np.uint8))
    settings = ["data.layout=paired_folders", f"data.root={tmp_path}", "data.instance_edges=false"]
    train.main(["--config", str(tiny_config), *settings])
    arguments = ["--checkpoint", str(tiny_config.parent / "runs" / "tiny"), "--output"]
    translate(*arguments, str(tmp_path / "by_split"))
    folders = ["--input", str(tmp_path / "test_A"), "--targets", str(tmp_path / "test_B")]
    translate(*arguments, str(tmp_path / "by_folder"), *folders)
    reports = [json.loads((tmp_path / name / "metrics.json").read_text()) for name in ("by_split", "by_folder")]
    assert [report["origin"].pop("split") for report in reports] == ["test", None]
    assert reports[0] == reports[1]


def test_two_freely_named_folders_have_no_test_split(
    tiny_config: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    for folder in ("edges", "shoes"):
        save_image(tmp_path / folder / "x.png", np.zeros((32, 32, 3), dtype=np.uint8))
    settings = ["data.layout=paired_folders", f"data.root={tmp_path}", "data.instance_edges=false"]
    train.main(["--config", str(tiny_config), *settings, "data.source_folder=edges", "data.target_folder=shoes"])
    arguments = ["--checkpoint", str(tiny_config.parent / "runs" / "tiny"), "--output", str(tmp_path / "out")]
    with pytest.raises(DataError, match=r"has no split 'test'\. Choose --split train, or --input FOLDER"):
        translate(*arguments)
    translate(*arguments, "--split", "train")
    assert (tmp_path / "out" / "x.png").is_file()
    assert "measured on  training samples, which show little of how new" in capfd.readouterr().out
    assert json.loads((tmp_path / "out" / "metrics.json").read_text())["measured_on"] == "training samples"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--input", "nowhere", "--instances", "nowhere"], "nowhere: no such folder"),
        (["--input", "configs"], "also needs instance maps. Add --instances DIR"),
        (["--split", "valid"], "no split 'valid'. Choose --split train or --split val or --split test, or --input"),
        (
            ["data.root=nowhere", "data.layout=paired_folders", "data.n_classes=12"],
            "data.root: no such folder: nowhere. Set data.root=FOLDER.",
        ),
        (["--checkpoint", "nowhere.pt"], "nowhere.pt: no such checkpoint file"),
        (["--checkpoint", "RUN/checkpoint-00000009.pt"], "RUN: checkpoint-00000004.pt"),
        (["--checkpoint", "pyproject.toml"], "pyproject.toml: not a checkpoint, but text; name another file"),
    ],
    ids=lambda value: value[-1] if isinstance(value, list) else "",
)
def test_a_mistake_ends_in_one_line_and_exit_code_2(
    tiny_run: Path, command_line: CommandLine, arguments: list[str], message: str
) -> None:
    arguments = [argument.replace("RUN", str(tiny_run)) for argument in arguments]
    (line,) = command_line.refusal(
        translation_script().main, "--checkpoint", str(checkpoint_path(tiny_run, 4)), *arguments
    )
    assert message.replace("RUN", str(tiny_run)) in line
