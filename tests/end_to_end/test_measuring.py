"""The figures of validation and of test.py, as a user asks for them."""

import hashlib
import json
import math
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from tests.conftest import save_image
from tests.metrics.networks import save_random_alexnet, save_random_inception
from tests.processes import run_two
from tests.runs import checkpoint, run, translate, with_slow
from utils.checkpoint import load_checkpoint
from utils.checkpoint_folder import checkpoint_path
from utils.label_colors import read_label_colors


@pytest.fixture(scope="session")
def torch_home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A cache of torch with random weights."""
    folder = tmp_path_factory.mktemp("torch")
    (folder / "hub" / "checkpoints").mkdir(parents=True)
    save_random_alexnet(folder / "hub" / "checkpoints")
    return folder


@pytest.fixture
def networks(torch_home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the cache of torch hold random weights."""
    monkeypatch.setenv("TORCH_HOME", str(torch_home))
    # LPIPS takes the convolutions alone of an AlexNet, whose other weights would be drawn for a second
    monkeypatch.setattr(torch.nn.Linear, "reset_parameters", lambda _: None)


def curves(run_folder: Path) -> dict[str, list[float]]:
    board = EventAccumulator(str(run_folder))
    board.Reload()
    return {tag: [event.value for event in board.Scalars(tag)] for tag in board.Tags()["scalars"]}


def report(folder: Path) -> dict[str, Any]:
    result: dict[str, Any] = json.loads((folder / "metrics.json").read_text())
    return result


@pytest.mark.usefixtures("networks")
def test_validation_measures_what_is_asked_for_and_keeps_the_best(tiny_config: Path) -> None:
    best = "swd"
    extra = [f"metrics.extra=[lpips,{best}]", f"checkpoint.best={best}", "log.images_every_steps=1"]
    run(tiny_config, *extra, "metrics.n_samples=5", "data.synthetic_samples=[5,5,3]", "train.max_steps=2")
    folder = tiny_config.parent / "runs" / "tiny"
    measured = curves(folder)
    for name in ("l1", "psnr", "ssim", "ms_ssim", "sharpness", "lpips", best):
        assert len(measured[f"validation/{name}"]) == 2, name
        assert all(map(math.isfinite, measured[f"validation/{name}"])), name
    assert load_checkpoint(folder / "best.pt")["best"] == pytest.approx(-min(measured[f"validation/{best}"]), rel=1e-5)
    pages = (folder / "web" / "rows.jsonl").read_text().splitlines()
    assert [json.loads(line)["name"] for line in pages] == [f"facade_{n:05}" for n in range(4)] * 2  # five are measured


@pytest.mark.parametrize("measures", with_slow(["swd"], ["fid"]))
@pytest.mark.usefixtures("networks")
def test_metrics_json_says_how_the_figures_were_made(
    tiny_run: Path, torch_home: Path, tmp_path: Path, measures: str
) -> None:
    out = tmp_path / "out"
    if measures == "fid":
        save_random_inception(torch_home / "hub" / "checkpoints")
    translate("--checkpoint", str(tiny_run), "--metrics", f"lpips,{measures}", "--output", str(out))
    found = report(out)
    assert set(found["whole"]) == {measures}
    assert found["mean"]["lpips"] == pytest.approx(np.mean([image["lpips"] for image in found["images"].values()]))
    protocol = found["protocol"]
    assert protocol["n_images"] == 3
    assert protocol["sizes"] == {"32x32": 3}
    origin = found["origin"]
    saved = checkpoint_path(tiny_run, 4)
    assert origin["checkpoint_sha256"] == hashlib.sha256(saved.read_bytes()).hexdigest()
    assert (origin["resizing"], origin["weights"], origin["noise"]) == ("none", "raw", False)
    assert abs(found["whole"][measures]) > 1e-3
    page = (out / "index.html").read_text()
    assert "MS-SSIM" in page
    assert "LPIPS" in page


def test_several_processes_translate_and_measure_what_one_does(tiny_config: Path, tmp_path: Path) -> None:
    best, folder = "swd", tiny_config.parent / "runs" / "tiny"
    settings = [f"metrics.extra=[{best}]", f"checkpoint.best={best}", "train.max_steps=1"]
    said = run_two(
        tmp_path / "two.out",
        ["train.py", "--config", str(tiny_config), *settings, "log.images_every_steps=1"],
        ["test.py", "--checkpoint", str(folder), "--output", str(tmp_path / "two")],
    )
    assert math.isfinite(curves(folder)[f"validation/{best}"][0])
    translate("--checkpoint", str(folder), "--output", str(tmp_path / "one"))
    assert said.count("translated   3 images") == 1
    pictures = sorted(path.relative_to(tmp_path / "one") for path in (tmp_path / "one").rglob("*.png"))
    assert Path("gallery/target/facade_00002.png") in pictures
    for picture in pictures:
        assert (tmp_path / "one" / picture).read_bytes() == (tmp_path / "two" / picture).read_bytes(), picture
    one, two = report(tmp_path / "one"), report(tmp_path / "two")
    assert one["whole"].keys() == two["whole"].keys() == {best}
    assert one["mean"].keys() >= {"l1", "ssim"}
    for kind in ("mean", "whole"):
        assert one[kind] == pytest.approx(two[kind], rel=1e-3, abs=1e-6)


@pytest.fixture
def photos_to_labels(tmp_path: Path) -> Path:
    """Pairs of a photo and the label picture in CMP's colours, side by side."""
    colors = read_label_colors("cmp_facades").colors.numpy()
    rng = np.random.default_rng(0)
    for split, n in (("train", 4), ("val", 1), ("test", 2)):
        for number in range(n):
            labels = rng.integers(0, 12, (4, 4)).repeat(8, 0).repeat(8, 1)
            photo = rng.integers(0, 256, (32, 32, 3), dtype=np.uint8)
            save_image(tmp_path / "pairs" / split / f"{number}.png", np.concatenate([photo, colors[labels]], axis=1))
    return tmp_path / "pairs"


def test_photos_to_labels_have_a_table_of_classes(
    tiny_config: Path, photos_to_labels: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data = ["data.layout=side_by_side", f"data.root={photos_to_labels}", "data.instance_edges=false"]
    run(tiny_config, *data, "metrics.label_colors=cmp_facades", "checkpoint.best=mean_iou")
    folder = tiny_config.parent / "runs" / "tiny"
    measured = curves(folder)
    assert 0 <= measured["validation/mean_iou"][0] <= 1
    assert 0 <= measured["iou/window"][0] <= 1
    assert re.search(r"IoU  .*window \d\.\d{3}", (folder / "log.txt").read_text())
    assert "best" in load_checkpoint(folder / "best.pt")
    assert "best" in checkpoint(tiny_config, 4)
    capsys.readouterr()
    translate("--checkpoint", str(folder), "--output", str(tmp_path / "out"))
    found = report(tmp_path / "out")
    assert set(found["classes"]) == set(read_label_colors("cmp_facades").names)
    assert set(found["whole"]) == {"pixel_accuracy", "mean_iou"}
    assert sum(score["share"] for score in found["classes"].values()) == pytest.approx(1)
    assert "nearest colour of cmp_facades, 12 classes" in found["protocol"]["labels"]["classes"]
    output = capsys.readouterr()
    assert "window" in output.out + output.err
    for page in (folder / "web" / "index.html", tmp_path / "out" / "index.html"):
        assert '<i style="background: #0055ff"></i>window</li>' in page.read_text()


def test_the_best_of_a_step_that_is_lost_stays_the_best(tiny_config: Path) -> None:
    """The checkpoint of step 2 has no best."""
    settings = ["checkpoint.best=l1", "checkpoint.every_steps=2", "log.images_every_steps=3"]
    run(tiny_config, *settings, "train.max_steps=6")
    folder = tiny_config.parent / "runs" / "tiny"
    best = load_checkpoint(folder / "best.pt")["best"]
    for step in (4, 6):  # the run was killed before
        checkpoint_path(folder, step).unlink()
    run(tiny_config, *settings, "train.max_steps=4", "optimizer.learning_rate=1e-9")
    assert load_checkpoint(folder / "best.pt")["best"] >= best
