"""The requests of docs/serving.md are answered."""

import re
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.docs.documents import ROOT, code_lines
from tests.runs import untrained_run
from tests.tools.serve.services import draw, levels, serving

PAGE = (ROOT / "docs" / "serving.md").read_text(encoding="utf-8")
CURL = [line for line in code_lines(PAGE) if line.startswith("curl ")]
ALONE, FORM, RELOAD, _HEALTH, WITH_TOKEN = CURL
PYTHON = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)


def answered(folder: Path, command: Sequence[str], *options: object) -> None:
    """Start a service, and run a command that takes its port for 8000 and writes translated.png."""
    with serving(*options) as server:
        words = [word.replace(":8000/", f":{server.port}/") for word in command]
        subprocess.run(words, cwd=folder, check=True, capture_output=True, timeout=120)
    assert levels((folder / "translated.png").read_bytes()).shape == (19, 45, 3)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    source, instances = draw(tmp_path)
    for name, content in {"labels.png": source, "instances.png": instances, "token": b"0123456789abcdef\n"}.items():
        (tmp_path / name).write_bytes(content)
    return tmp_path


@pytest.mark.skipif(shutil.which("curl") is None, reason="needs curl")
@pytest.mark.parametrize("command", [ALONE, WITH_TOKEN])
def test_an_image_by_curl(labels_run: Path, folder: Path, command: str) -> None:
    token = ("--host", "0.0.0.0", "--token-file", folder / "token") if "Bearer" in command else ()
    answered(folder, ["sh", "-c", command], "--checkpoint", labels_run, *token)


@pytest.mark.skipif(shutil.which("curl") is None, reason="needs curl")
def test_a_form_by_curl(tiny_run: Path, folder: Path) -> None:
    answered(folder, ["sh", "-c", FORM], "--checkpoint", tiny_run)


@pytest.mark.skipif(shutil.which("curl") is None, reason="needs curl")
def test_a_reload_by_curl(labels_run: Path, folder: Path) -> None:
    answered(folder, ["sh", "-c", f"{RELOAD} | grep '\"step\":' && {ALONE}"], "--checkpoint", labels_run)


def test_an_image_by_python(labels_run: Path, folder: Path) -> None:
    (block,) = PYTHON
    answered(folder, [sys.executable, "-c", block], "--checkpoint", labels_run)


@pytest.fixture
def labels_run(tiny_config: Path) -> Path:
    """Of label maps without instances."""
    return untrained_run(tiny_config, "data.instance_edges=false")
