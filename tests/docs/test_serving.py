"""The requests of docs/serving.md are answered."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.docs.documents import ROOT, code_lines
from tests.runs import untrained_run
from tests.tools.serve.services import draw, levels, serving

PAGE = (ROOT / "docs" / "serving.md").read_text(encoding="utf-8")
ALONE, FORM, RELOAD, _HEALTH, WITH_TOKEN = (line for line in code_lines(PAGE) if line.startswith("curl "))
(PYTHON,) = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)


@pytest.mark.skipif(shutil.which("curl") is None, reason="needs curl")
def test_each_request_writes_a_translation(tiny_run: Path, tiny_config: Path) -> None:
    folder, labels_run = tiny_config.parent, untrained_run(tiny_config, "data.instance_edges=false")
    source, instances = draw(folder)
    for name, content in {"labels.png": source, "instances.png": instances, "token": b"0123456789abcdef\n"}.items():
        (folder / name).write_bytes(content)
    token = ("--host", "0.0.0.0", "--token-file", folder / "token")
    for run, options, commands in (
        (labels_run, (), (["sh", "-c", f"{RELOAD} | grep '\"step\":' && {ALONE}"], [sys.executable, "-c", PYTHON])),
        (labels_run, token, (["sh", "-c", WITH_TOKEN],)),
        (tiny_run, (), (["sh", "-c", FORM],)),
    ):
        with serving("--checkpoint", run, *options) as server:
            for command in commands:
                words = [word.replace(":8000/", f":{server.port}/") for word in command]
                subprocess.run(words, cwd=folder, check=True, capture_output=True, timeout=120)
                assert levels((folder / "translated.png").read_bytes()).shape == (19, 45, 3)
                (folder / "translated.png").unlink()
