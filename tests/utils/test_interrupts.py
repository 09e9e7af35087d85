"""Ctrl-C and other signals while modules are imported."""

import os
import signal
import subprocess
import sys
import time
from importlib import import_module
from pathlib import Path

import pytest

from utils.errors import Interrupted
from utils.signals import GracefulStop

INTERRUPTED_IMPORT = f"""
import os
try:
    os.kill(os.getpid(), {signal.SIGINT.value})
except KeyboardInterrupt as error:
    raise ImportError("as torch and numpy do") from error
"""


@pytest.mark.parametrize(
    "program",
    [
        ["train.py", "--config", "configs/demo.yaml"],
        ["test.py"],
        ["-m", "tools.check_data", "configs"],
        ["-m", "tools.export"],
    ],
    ids=lambda program: program[-1],
)
def test_ctrl_c_while_torch_is_imported_is_one_line(tmp_path: Path, program: list[str]) -> None:
    (tmp_path / "torch.py").write_text(INTERRUPTED_IMPORT)
    environment = os.environ | {"PYTHONPATH": str(tmp_path), "PYTHONDONTWRITEBYTECODE": "1"}
    ended = subprocess.run([sys.executable, *program], capture_output=True, text=True, check=False, env=environment)
    assert (ended.returncode, ended.stderr, ended.stdout) == (130, "interrupted\n", "")


def test_a_signal_during_an_import_of_a_run_waits_for_its_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "struck_module.py").write_text(f"import os\nos.kill(os.getpid(), {signal.SIGTERM.value})\nis_whole = 1")
    monkeypatch.syspath_prepend(tmp_path)
    imported = []

    def start() -> None:
        with GracefulStop():
            imported.append(import_module("struck_module").is_whole)
            time.sleep(60)

    with pytest.raises(Interrupted, match="stopped by SIGTERM; there was nothing to save"):
        start()
    assert imported
