"""test.py replaces its own results and no other files."""

import json
import os
import shutil
import signal
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import torch

from data.batch import DataError
from data.files.image_files import read_rgb
from tests import processes
from tests.conftest import save_image
from tests.runs import translate, wait_for
from utils.checkpoint import load_checkpoint, save_checkpoint
from utils.checkpoint_folder import checkpoint_path

NAMES = ("facade_00000", "facade_00001", "facade_00002")
BLACK = np.zeros((32, 32, 3), np.uint8)


@pytest.fixture
def arguments(tiny_run: Path, tmp_path: Path) -> list[str]:
    return ["--checkpoint", str(tiny_run), "--output", str(tmp_path / "out")]


def test_results_are_replaced_and_other_files_are_not(
    arguments: list[str], tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    output = tmp_path / "out"
    for name in NAMES[:2]:
        save_image(output / f"{name}.png", BLACK)
    message = r"out/facade_00000\.png and 1 other file.*--existing replace"
    for choice in ([], ["--existing", "keep"]):
        with pytest.raises(DataError, match=message):
            translate(*arguments, *choice)
    assert [path.name for path in sorted(output.iterdir())] == [f"{name}.png" for name in NAMES[:2]]
    translate(*arguments, "--existing", "replace")
    assert read_rgb(output / "facade_00000.png").any()
    translate(*arguments)  # its own results
    assert capfd.readouterr().out.count("translated   3 images") == 2


def test_an_interrupted_translation_is_completed(
    arguments: list[str], tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    output = tmp_path / "out"
    translate(*arguments)
    expected = {name: read_rgb(output / f"{name}.png") for name in NAMES}
    metrics = json.loads((output / "metrics.json").read_text())
    untouched = (output / f"{NAMES[0]}.png").stat()
    (output / f"{NAMES[1]}.png").write_bytes((output / f"{NAMES[1]}.png").read_bytes()[:200])  # killed while writing
    (output / f"{NAMES[2]}.png").unlink()
    capfd.readouterr()
    translate(*arguments, "--existing", "keep")
    said = capfd.readouterr().out
    assert "kept         1 existing image\n" in said
    assert "translated   2 images: " in said
    assert all(torch.equal(read_rgb(output / f"{name}.png"), expected[name]) for name in NAMES)
    assert (output / f"{NAMES[0]}.png").stat().st_mtime_ns == untouched.st_mtime_ns
    again = json.loads((output / "metrics.json").read_text())
    assert all(again["images"][name] == pytest.approx(metrics["images"][name]) for name in NAMES)
    assert [report["origin"]["n_kept"] for report in (metrics, again)] == [0, 1]


def test_ctrl_c_leaves_complete_images_alone(tiny_run: Path, tmp_path: Path) -> None:
    output, said = tmp_path / "out", tmp_path / "said"
    command = ["test.py", "--checkpoint", str(tiny_run), "--output", str(output), "data.synthetic_samples=[5,2,2000]"]
    process = processes.start_program(command, said, partial(torch.set_num_threads, 4))
    wait_for(output / "facade_00005.png")
    assert process.pid is not None
    os.kill(process.pid, signal.SIGINT)
    process.join(processes.PATIENCE_S)
    assert process.exitcode == 130
    assert said.read_text().splitlines()[-1] == "interrupted"
    assert "Traceback" not in said.read_text()
    names = [path.stem for path in output.glob("*.png")]
    assert 5 < len(names) < 2000
    assert all(read_rgb(path).shape == (3, 32, 32) for path in output.rglob("*.png"))
    assert {path.name for path in output.iterdir()} == {"gallery", *(f"{name}.png" for name in names)}


def test_translations_of_another_origin_are_not_kept(
    arguments: list[str], tiny_run: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    output = tmp_path / "out"
    translate(*arguments)
    record = json.loads((output / "gallery" / "origin.json").read_text())
    reported = json.loads((output / "metrics.json").read_text())["origin"]
    assert record.items() <= (reported | {"mixed": False}).items()
    assert not {"folders", "checkpoint"} & record.keys()  # both may move
    message = (
        r"out holds translations made with other settings \({}\)\. Choose another --output, or --existing replace\.$"
    )
    with pytest.raises(DataError, match=message.format("precision, noise, seed")):
        translate(*arguments, "--existing", "keep", "--noise", "--opt-level", "O0")
    with pytest.raises(DataError, match=message.format(r"split, data\.ignore_id")):
        translate(*arguments, "--existing", "keep", "--split", "val", "data.ignore_id=3")
    moved = shutil.copytree(tiny_run, tmp_path / "moved")
    translate("--checkpoint", str(moved), "--output", str(output), "--existing", "keep")
    assert "kept         3 existing images" in capfd.readouterr().out
    other = moved / "checkpoint-00000005.pt"
    save_checkpoint(other, load_checkpoint(checkpoint_path(moved, 4)) | {"step": 5})
    with pytest.raises(DataError, match=message.format("checkpoint_sha256")):
        translate("--checkpoint", str(other), "--output", str(output), "--existing", "keep")
    translate("--checkpoint", str(other), "--output", str(output))
    assert f"replacing    3 images in {output}, made with other settings (checkpoint_sha256)" in capfd.readouterr().out
    (output / "gallery" / "origin.json").unlink()  # earlier versions wrote none
    with pytest.raises(
        DataError, match=r"holds translations made with settings that are not recorded\. Choose another"
    ):
        translate(*arguments, "--existing", "keep")
