"""A system with few signals, as Windows, runs the product."""

import signal
from collections.abc import Iterator
from importlib.machinery import SourceFileLoader
from importlib.util import module_from_spec, spec_from_loader

import pytest

from tests.test_layering import ROOT, imported_modules, product_sources
from utils import signals

SOURCES = {path: source for path, source in product_sources().items() if "signal" in imported_modules(source)}
ON_WINDOWS = {"SIGABRT", "SIGFPE", "SIGILL", "SIGINT", "SIGSEGV", "SIGTERM", "SIG_DFL", "SIG_IGN"}


@pytest.fixture
def few_signals(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in vars(signal) if name.startswith(("SIG", "pthread_")) and name not in ON_WINDOWS]:
        monkeypatch.delattr(signal, name)


@pytest.mark.usefixtures("few_signals")
@pytest.mark.parametrize("path", SOURCES)
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
