"""Calls an entry point in this process, as the shell would."""

import sys
from collections.abc import Callable, Sequence

import pytest

from utils.cli import run_entry_point


class CommandLine:
    """Runs `main` of an entry point with arguments."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
        self._monkeypatch = monkeypatch
        self._capsys = capsys

    def run(self, main: Callable[[Sequence[str]], None], *arguments: str) -> tuple[int, str, str]:
        """Exit code, standard output and error."""
        self._monkeypatch.setattr(sys, "argv", [main.__module__, *arguments])
        try:
            code: object = run_entry_point(main)
        except SystemExit as end:  # argparse ends the program
            code = end.code
        assert isinstance(code, int)
        out, err = self._capsys.readouterr()
        return code, out, err

    def refusal(self, main: Callable[[Sequence[str]], None], *arguments: str) -> list[str]:
        """Return the error lines of a refused command."""
        code, _, err = self.run(main, *arguments)
        assert code == 2, err
        lines = err.splitlines()
        assert lines
        assert all(line.startswith("error: ") and line.isprintable() for line in lines), lines
        return lines
