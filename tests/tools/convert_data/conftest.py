from pathlib import Path

import pytest

from tests.reliability.command_line import CommandLine
from tools.convert_data import __main__ as convert_data


class Convert:
    """Runs tools.convert_data."""

    def __init__(self, command: CommandLine) -> None:
        self._command = command

    def __call__(self, *arguments: str | Path) -> tuple[int, str]:
        """Return the exit code and the output."""
        code, out, err = self._command.run(convert_data.main, *map(str, arguments))
        return code, out + err

    def refusal(self, *arguments: str | Path) -> str:
        """Return the last line of the error."""
        return self._command.refusal(convert_data.main, *map(str, arguments))[-1]


@pytest.fixture
def convert(command_line: CommandLine) -> Convert:
    return Convert(command_line)
