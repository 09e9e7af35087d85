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
from data.files.image_files import read_ids, read_rgb
from inference.load import load_generator
from inference.predictor import image_seed
from tests.conftest import save_image
from tests.reliability.command_line import CommandLine
from tests.runs import translate, translation_script
from utils.checkpoint import CheckpointError, load_checkpoint
from utils.checkpoint_folder import checkpoint_path


def pixels(folder: Path) -> dict[str, torch.Tensor]:
    return {path.stem: read_rgb(path).int() for path in folder.glob("facade_*.png")}


def test_the_test_split_is_translated_with_names_sheet_and_metrics(tiny_run: Path, tmp_path: Path) -> None:
    translate("--checkpoint", str(tiny_run), "--output", str(tmp_path / "out"))
    names = sorted(path.name for path in (tmp_path / "out").iterdir())
    assert names == [
        "contact_sheet.png",
        "facade_00000.png",
        "facade_00001.png",
        "facade_00002.png",
        "gallery",
        "index.html",
        "metrics.json",
    ]
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


def test_the_average_of_the_weights_is_used_unless_the_raw_ones_are_wanted(tiny_config: Path, tmp_path: Path) -> None:
    train.main(["--config", str(tiny_config), "train.ema_decay=0.5"])
    run_folder = tiny_config.parent / "runs" / "tiny"
    pictures = {}
    for weights in ([], ["--weights", "ema"], ["--weights", "raw"]):
        translate("--checkpoint", str(run_folder), "--output", str(tmp_path / "out"), *weights)
        pictures[" ".join(weights)] = pixels(tmp_path / "out")["facade_00000"]
    assert torch.equal(pictures[""], pictures["--weights ema"])
    assert not torch.equal(pictures[""], pictures["--weights raw"])
    state = load_checkpoint(checkpoint_path(run_folder, 4))
    average = load_generator(checkpoint_path(run_folder, 4)).generator.state_dict()
    assert torch.equal(average["stem.1.weight"], state["averages"]["generator"]["module.stem.1.weight"])


def test_noise_is_drawn_by_seed_and_name_and_evaluation_has_none(tiny_config: Path, tmp_path: Path) -> None:
    train.main(["--config", str(tiny_config), "generator.dropout=true", "generator.norm=batch"])
    run_folder = str(tiny_config.parent / "runs" / "tiny")

    def translated(name: str, *arguments: str) -> dict[str, torch.Tensor]:
        translate("--checkpoint", run_folder, "--output", str(tmp_path / name), "--opt-level", "O0", *arguments)
        return pixels(tmp_path / name)

    plain, noisy, again = translated("a"), translated("b", "--noise"), translated("c", "--noise")
    other = translated("d", "--noise", "--seed", "1")
    for name in plain:
        assert torch.equal(noisy[name], again[name])
        assert not torch.equal(noisy[name], other[name])
        assert not torch.equal(noisy[name], plain[name])
    trained = load_generator(checkpoint_path(Path(run_folder), 4))
    sample = SyntheticFacades(split="test", seed=0, n_samples=3, height=32, width=32).read(1)
    torch.manual_seed(image_seed(0, sample.name))
    with torch.no_grad():
        fake = trained.generator.train()(build.build_conditioning(trained.config)(Batch.of([sample])))
    assert torch.equal(noisy[sample.name], images_to_uint8(fake)[0].int())


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


def test_results_never_overwrite_what_they_are_made_of(tiny_run: Path, tmp_path: Path) -> None:
    labels = np.zeros((32, 32), dtype=np.uint8)
    for folder in ("in", "inst"):
        save_image(tmp_path / folder / "a.png", labels)
    arguments = [
        "--checkpoint",
        str(tiny_run),
        "--input",
        str(tmp_path / "in"),
        "--instances",
        str(tmp_path / "inst"),
    ]
    for output, where in (
        ("in", r"the folder of the inputs\."),
        ("in/out", "inside .*, which holds inputs"),
        ("inst", "the folder"),
    ):
        with pytest.raises(DataError, match=f"output.*{output} is {where}"):
            translate(*arguments, "--output", str(tmp_path / output))
    for folder in ("in", "inst"):
        save_image(tmp_path / folder / "contact_sheet.png", labels)
    with pytest.raises(DataError, match="contact_sheet is the name of the contact sheet"):
        translate(*arguments, "--output", str(tmp_path / "out"))
    assert read_ids(tmp_path / "in" / "a.png").eq(0).all()


def test_the_data_set_itself_is_not_overwritten(tiny_config: Path, label_data_set: Path) -> None:
    settings = ["data.layout=paired_folders", f"data.root={label_data_set}", "data.n_classes=5"]
    train.main(["--config", str(tiny_config), *settings])
    arguments = ["--checkpoint", str(tiny_config.parent / "runs" / "tiny"), "--output"]
    with pytest.raises(DataError, match=r"test_label is the folder of the inputs"):
        translate(*arguments, str(label_data_set / "test_label"))
    links = label_data_set.parent / "links"
    for folder in ("test_label", "test_inst"):
        (links / folder).mkdir(parents=True)
        (links / folder / "d.png").symlink_to(label_data_set / folder / "d.png")
    folders = ["--input", str(links / "test_label"), "--instances", str(links / "test_inst")]
    with pytest.raises(DataError, match=r"would overwrite the input .*d\.png"):
        translate(*arguments, str(label_data_set / "test_label"), *folders)


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


def test_a_data_set_that_has_moved_is_found_by_an_override(
    tiny_config: Path, label_data_set: Path, tmp_path: Path
) -> None:
    settings = ["data.layout=paired_folders", f"data.root={label_data_set}", "data.n_classes=5"]
    train.main(["--config", str(tiny_config), *settings])
    label_data_set.rename(tmp_path / "moved")
    run_folder = tiny_config.parent / "runs" / "tiny"
    translate("--checkpoint", str(run_folder), "--output", str(tmp_path / "out"), f"data.root={tmp_path / 'moved'}")
    assert (tmp_path / "out" / "d.png").is_file()


def test_flags_that_need_others_are_refused(capfd: pytest.CaptureFixture[str]) -> None:
    for arguments in (["--targets", "x"], ["--input", "x", "--split", "test"], ["--batch-size", "0"]):
        with pytest.raises(SystemExit, match="2"):
            translate(*arguments)
    error = capfd.readouterr().err
    assert "--instances, --targets and --feature-maps need --input" in error
    assert "--split and --input exclude each other" in error
    assert "'0' is not a whole number above 0" in error


@pytest.mark.parametrize(
    ("arguments", "option"),
    [
        (["runs/pairs"], "--checkpoint runs/pairs"),
        (["--input", "a.png", "--device", "cpu", "runs/pairs/best.pt"], "--checkpoint runs/pairs/best.pt"),
        (["photos/a.jpg"], "--input photos/a.jpg"),
    ],
    ids=lambda value: value[-1] if isinstance(value, list) else "",
)
def test_a_path_without_an_option_names_the_option(
    capfd: pytest.CaptureFixture[str], arguments: list[str], option: str
) -> None:
    with pytest.raises(SystemExit, match="2"):
        translate(*arguments)
    assert f"{arguments[-1]} is no setting: did you mean {option}?" in capfd.readouterr().err


def test_a_run_without_checkpoint_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(CheckpointError, match=r"runs: no run with a checkpoint\. Train one first"):
        translate()
    (tmp_path / "empty").mkdir()
    with pytest.raises(CheckpointError, match=r"empty: the folder holds no checkpoint, .* Runs below it: none\.$"):
        translate("--checkpoint", "empty")


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
