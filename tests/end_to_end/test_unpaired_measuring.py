"""Trainings without pairs: what their validations measure and show, and what test.py measures."""

import json
from pathlib import Path

import numpy as np
import pytest

from tests.conftest import save_image
from tests.runs import run, translate
from utils.errors import UserError

UNPAIRED = ["data.layout=unpaired_folders", "data.instance_edges=false", "loss.feature_matching=0", "loss.vgg=0"]
UNPAIRED += ["loss.l1=0", "data.preprocess=none", "log.images_every_steps=1", "checkpoint.best=swd"]
CYCLE = ["method.name=cycle", "cycle.identity=0", "data.source_channels=1", "data.source_range=[0,4095]"]
CUT = ["method.name=contrastive", "contrastive.taps=[stem.0]", "contrastive.channels=4"]


@pytest.fixture
def config(tiny_config: Path) -> Path:
    """A configuration of two sides: grey images of 12 bits, and fewer photographs of other sizes."""
    rng = np.random.default_rng(0)
    for split in ("train", "test"):
        for number in range(3):
            grey = rng.integers(0, 4096, (32, 48), dtype=np.uint16)
            save_image(tiny_config.parent / "set" / f"{split}_A" / f"{number}.png", grey)
        for number in range(2):
            photo = rng.integers(0, 256, (40, 32, 3), dtype=np.uint8)
            save_image(tiny_config.parent / "set" / f"{split}_B" / f"{number}.png", photo)
    return tiny_config


def settings(config: Path, *more: str) -> list[str]:
    return [*UNPAIRED, f"data.root={config.parent / 'set'}", *more]


def test_both_directions_are_measured_shown_and_chosen_by(config: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run(config, *settings(config, *CYCLE, "train.max_steps=2", "metrics.n_samples=3"))
    assert "to compare     SWD " in capsys.readouterr().out
    folder = config.parent / "runs" / "tiny"
    lines = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    for tag in ("validation/swd", "validation_BtoA/swd"):
        assert [line["step"] for line in lines if tag in line] == [1, 2]
    assert (folder / "best.pt").is_file()
    row = json.loads((folder / "web" / "rows.jsonl").read_text().splitlines()[0])
    assert [kind for kind in row["images"] if (folder / "web" / row["images"][kind]).is_file()] == [
        "source",
        "translated",
        "reconstructed",
        "real",
        "real_translated",
        "real_reconstructed",
    ]
    for direction, n_images, n_real in (("AtoB", 3, 2), ("BtoA", 2, 3)):
        output = config.parent / direction
        translate("--checkpoint", str(folder), "--direction", direction, "--output", str(output))
        report = json.loads((output / "metrics.json").read_text())
        assert (report["n_images"], report["n_real"]) == (n_images, n_real)
        assert report["whole"].keys() == report["floor"].keys() == report["ceiling"].keys() == {"swd"}
        assert all(value > 0 for name in ("whole", "floor", "ceiling") for value in report[name].values())
        assert "images" not in report  # none has a target of its own
        assert report["protocol"]["laplacian_patches"] == {"patches_per_image_and_level": 128}


def test_test_py_measures_nothing_where_there_is_no_other_side_and_pairs_where_it_gets_them(config: Path) -> None:
    photos = ["data.source_folder={split}_B", "data.target_folder={split}_B"]
    run(config, *settings(config, *CUT, *photos, "train.max_steps=1", "data.test_split=train"))
    checkpoint, root = str(config.parent / "runs" / "tiny"), config.parent
    translate("--checkpoint", checkpoint, "--output", str(root / "of_split"), "--existing", "replace")
    assert "floor" in json.loads((root / "of_split" / "metrics.json").read_text())
    sources = ["--input", str(root / "set" / "test_B")]
    translate("--checkpoint", checkpoint, *sources, "--output", str(root / "alone"))
    assert not (root / "alone" / "metrics.json").exists()
    translate(
        "--checkpoint", checkpoint, *sources, "--targets", str(root / "set" / "test_B"), "--output", str(root / "in")
    )
    mean = json.loads((root / "in" / "metrics.json").read_text())["mean"]
    assert {"l1", "psnr", "ssim"} <= mean.keys()


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        (
            "metrics.extra=[lpips]",
            r"metrics\.extra is \['lpips'\], expected \[\] or some of swd, fid, kid: there is no target",
        ),
        ("checkpoint.best=ssim", r"checkpoint\.best is ssim, expected auto, none, swd, fid or kid: there is no target"),
        (
            "checkpoint.best=mean_iou",
            r"checkpoint\.best is mean_iou, expected auto, none, swd, fid or kid: there is no target",
        ),
        ("checkpoint.best=kid", r"checkpoint\.best is kid, expected one that is measured: metrics\.extra=\[kid\]"),
    ],
)
def test_metrics_of_pairs_are_refused_by_name(config: Path, setting: str, message: str) -> None:
    with pytest.raises(UserError, match=message):
        run(config, *settings(config, *CYCLE, setting))
