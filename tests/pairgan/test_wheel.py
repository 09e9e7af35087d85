"""The wheel installs only pairgan.py, which translates with onnxruntime without the rest of the project."""

import os
import shutil
import subprocess
import sys
import venv
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from tests.conftest import save_image
from tests.pairgan.conftest import photo_pairs, rng, trained
from tests.runs import translate

ROOT = Path(__file__).parents[2]
NOT_COPIED = ("tests", "runs", "results", "datasets", "build", "dist", "*.egg-info", "__pycache__", ".*")
STRANGER = """
import pairgan
model = pairgan.load("generator.onnx")
model("photo.png").save("translated.png")
"""
NAMES = "bench configs data inference losses metrics models tests tools torch train training utils"


pytestmark = pytest.mark.slow  # pip makes an environment


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The Python of an environment that has the wheel and what pip installs with `pairgan[onnx]`."""
    folder = tmp_path_factory.mktemp("wheel")
    shutil.copytree(ROOT, folder / "tree", ignore=shutil.ignore_patterns(*NOT_COPIED))
    pip("wheel", "--no-deps", "--wheel-dir", str(folder), str(folder / "tree"))
    (wheel,) = folder.glob("*.whl")
    venv.create(folder / "venv", with_pip=False)
    python = folder / "venv" / ("Scripts" if os.name == "nt" else "bin") / "python"
    constraints = ("--constraint", str(ROOT / "constraints.txt"))
    pip("--python", str(python), "install", *constraints, f"{wheel}[onnx]")
    return python


def pip(*arguments: str) -> None:
    command = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check", *arguments]
    subprocess.run(command, check=True)


def elsewhere(python: Path, code: str, folder: Path) -> str:
    """Run code in a folder with a Python that finds only installed packages and the files of that folder."""
    return subprocess.run([python, "-I", "-c", code], cwd=folder, check=True, capture_output=True, text=True).stdout


def test_three_lines_translate_as_test_py_does(installed: Path, tmp_path: Path) -> None:
    run_folder, folder = trained(tmp_path, *photo_pairs(tmp_path)), tmp_path / "elsewhere"
    save_image(folder / "photo.png", rng.integers(0, 256, (21, 34, 3), dtype=np.uint8))
    (run_folder / "generator.onnx").rename(folder / "generator.onnx")
    elsewhere(installed, STRANGER, folder)
    inputs = ("--checkpoint", str(run_folder), "--input", str(folder / "photo.png"), "--opt-level", "O0")
    translate(*inputs, "--output", str(tmp_path / "out"))
    results = (folder / "translated.png", tmp_path / "out" / "photo.png")
    found, wanted = (np.asarray(Image.open(path)).astype(int) for path in results)
    assert wanted.std() > 10
    assert abs(found - wanted).max() <= 1
    (folder / "translated.png").unlink()
    command = [str(installed), "-m", "pairgan", "generator.onnx", "photo.png", "translated.png"]
    subprocess.run(command, cwd=folder, check=True)
    assert (abs(np.asarray(Image.open(folder / "translated.png")).astype(int) - found) <= 1).all()


def test_nothing_else_of_the_tree_is_installed(installed: Path, tmp_path: Path) -> None:
    (packages,) = installed.parents[1].rglob("site-packages")
    record = next(packages.glob("pairgan-*.dist-info/RECORD")).read_text().splitlines()
    files = {line.partition(",")[0] for line in record}
    assert {name for name in files if ".dist-info/" not in name and "__pycache__" not in name} == {"pairgan.py"}
    code = f"""
import importlib.util
print([name for name in {NAMES.split()} if importlib.util.find_spec(name)])
"""
    assert elsewhere(installed, code, tmp_path) == "[]\n"
