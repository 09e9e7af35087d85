"""Signals: on a system with few of them, as Windows, while modules are imported, and Ctrl-C."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from importlib import import_module
from importlib.machinery import SourceFileLoader
from importlib.util import module_from_spec, spec_from_loader
from pathlib import Path

import pytest

from tests.test_layering import ROOT, product_sources
from utils import signals
from utils.errors import Interrupted
from utils.signals import GracefulStop

SOURCES = {path: source for path, source in product_sources().items() if "import signal" in source}
ON_WINDOWS = {"SIGABRT", "SIGFPE", "SIGILL", "SIGINT", "SIGSEGV", "SIGTERM", "SIG_DFL", "SIG_IGN"}


@pytest.fixture
def few_signals(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in vars(signal) if name.startswith(("SIG", "pthread_")) and name not in ON_WINDOWS]:
        monkeypatch.delattr(signal, name)


@pytest.mark.usefixtures("few_signals")
@pytest.mark.parametrize("path", sorted(SOURCES))
def test_a_module_is_imported(path: str) -> None:
    name = path.removesuffix(".py").replace("/", ".")
    spec = spec_from_loader(name, SourceFileLoader(name, str(ROOT / path)))
    assert spec is not None
    assert spec.loader is not None
    spec.loader.exec_module(module_from_spec(spec))  # a second copy, which is dropped


@pytest.fixture
def handlers() -> Iterator[None]:
    before = {number: signal.getsignal(number) for number in signals.STOPPING}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.mark.usefixtures("few_signals", "handlers")
def test_signals_that_there_are_not_are_left_out() -> None:
    assert signals.available("SIGINT", "SIGHUP", "SIGTERM") == (signal.SIGINT, signal.SIGTERM)
    with signals.blocked((signal.SIGINT,)):
        signals.ignore((signal.SIGINT,))
    assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN


@pytest.mark.usefixtures("handlers")
def test_signals_are_held_back_and_then_ignored() -> None:
    before = signal.pthread_sigmask(signal.SIG_BLOCK, ())
    came: list[int] = []
    signal.signal(signal.SIGUSR1, lambda number, _frame: came.append(number))
    with signals.blocked(signals.STOPPING):
        signal.raise_signal(signal.SIGUSR1)
        signals.ignore(signals.STOPPING)
    assert not came
    assert signal.pthread_sigmask(signal.SIG_BLOCK, ()) == before


INTERRUPTED_IMPORT = f"""
import os
try:
    os.kill(os.getpid(), {signal.SIGINT.value})
except KeyboardInterrupt as error:
    raise ImportError("as torch and numpy do") from error
"""


@pytest.mark.parametrize("program", [["train.py", "--config", "demo"], ["-m", "tools.export"]], ids=" ".join)
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
