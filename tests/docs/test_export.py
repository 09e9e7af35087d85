"""The Python of docs/export.md runs where nothing of this project but pairgan.py lies, as test.py translates."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from tests.conftest import save_image
from tests.docs.documents import ROOT
from tests.images import bands, save_npy
from tests.pairgan.conftest import LARGE_WEIGHTS, exported
from tests.runs import program_main, translate

BLOCKS = re.findall(r"```python\n(.*?)```", (ROOT / "docs" / "export.md").read_text(encoding="utf-8"), re.DOTALL)
THREE_LINES, CARD, LABELS, BANDS, ONNX, SAFETENSORS, SAFETENSORS_ELSEWHERE = BLOCKS
ROTATED = 6  # EXIF's orientation of a camera on its side


def moved(run_folder: Path, folder: Path) -> Path:
    """Return a new folder that has only a run's generator.onnx."""
    (folder / "elsewhere").mkdir()
    shutil.copy(run_folder / "generator.onnx", folder / "elsewhere")
    return folder / "elsewhere"


def run_elsewhere(code: str, folder: Path) -> None:
    """Run `code` in `folder` by a Python that finds only what is installed, and pairgan.py."""
    shutil.copy(ROOT / "pairgan.py", folder)
    script = f"import sys; sys.path.insert(0, {str(folder)!r})\n{code}"
    subprocess.run([sys.executable, "-I", "-c", script], cwd=folder, check=True)


def assert_translated_as_by_test_py(script: str, folder: Path, run_folder: Path, *inputs: str) -> None:
    run_elsewhere(script, folder)
    expected = folder.parent / "expected"
    translate("--checkpoint", str(run_folder), *inputs, "--output", str(expected), "--opt-level", "O0")
    (result,) = (path for path in expected.glob("*.png") if path.stem != "contact_sheet")
    found, wanted = (np.asarray(Image.open(path)).astype(int) for path in (folder / "translated.png", result))
    assert wanted.std() > 10
    assert found.shape == wanted.shape
    assert abs(found - wanted).max() <= 1


def test_a_photograph_is_translated_outside_of_the_project(of_photos: Path, tmp_path: Path) -> None:
    elsewhere = moved(of_photos, tmp_path)
    rng = np.random.default_rng(0)
    exif = Image.Exif()
    exif[0x0112] = ROTATED
    photo = rng.integers(0, 256, (5, 7, 3), dtype=np.uint8).repeat(7, 0).repeat(9, 1)
    Image.fromarray(photo).save(elsewhere / "photo.jpg", exif=exif)
    script = f"{ONNX}\nassert translated.shape == (1, 3, 32, 52)\n"
    inputs = ("--input", str(elsewhere / "photo.jpg"))
    assert_translated_as_by_test_py(f"{script}\n{CARD}\n{THREE_LINES}", elsewhere, of_photos, *inputs)


@pytest.mark.slow
def test_a_label_map_is_translated_outside_of_the_project(of_labels: Path, tmp_path: Path) -> None:
    elsewhere, rng = moved(of_labels, tmp_path), np.random.default_rng(0)
    labels = rng.integers(0, 12, (3, 5), dtype=np.uint8)  # so small that it is reflected repeatedly
    save_image(elsewhere / "labels.png", labels)
    save_image(elsewhere / "instances.png", rng.integers(0, 9, labels.shape, dtype=np.uint16) * 1000)
    (elsewhere / "instances").mkdir()
    (elsewhere / "instances" / "labels.png").hardlink_to(elsewhere / "instances.png")
    inputs = ("--input", str(elsewhere / "labels.png"), "--instances", str(elsewhere / "instances"))
    assert_translated_as_by_test_py(LABELS, elsewhere, of_labels, *inputs)


@pytest.mark.slow
def test_bands_are_translated_outside_of_the_project(tmp_path: Path) -> None:
    data = ["data.layout=paired_folders", f"data.root={tmp_path}", "data.instance_edges=false"]
    channels = ["data.source_channels=4", "data.target_channels=1", "data.target_files=float32.npy"]
    ranges = ["data.source_range=[0,60000]", "data.target_range=[-20,480]"]
    exported(tmp_path, LARGE_WEIGHTS, *data, *channels, *ranges)
    save_npy(tmp_path / "bands.npy", bands(0))
    run_elsewhere(BANDS, tmp_path)
    found = np.load(tmp_path / "translated.npy")
    assert (found.shape, found.dtype) == ((1, 32, 40), np.float32)
    assert found.std() > 10


def test_safetensors_are_read_by_this_project_and_elsewhere(tiny_run: Path, tmp_path: Path) -> None:
    file = tmp_path / "generator.safetensors"
    program_main("tools.export")(["--checkpoint", str(tiny_run), "--format", "safetensors", "--output", str(file)])
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(tmp_path)
        names: dict[str, object] = {}
        exec(SAFETENSORS, names)
        exec(SAFETENSORS_ELSEWHERE, names)
    assert isinstance(names["weights"], dict)
    assert names["weights"]
