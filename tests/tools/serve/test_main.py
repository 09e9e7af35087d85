"""The command lines of the service and of the playground."""

from pathlib import Path
from types import ModuleType

import pytest

from tests.tools.serve.services import serving
from tools.playground import __main__ as playground
from tools.serve import __main__ as serve
from utils.errors import ConfigError


@pytest.mark.parametrize(
    ("program", "arguments", "message"),
    [
        (serve, ["--port", "70000"], "'70000' is not a whole number from 0 to 65535"),
        (serve, ["--batch-size", "0"], "'0' is not a whole number above 0"),
        (playground, ["--seed", "-1"], "'-1' is not a whole number from 0 to 2147483647"),
        (playground, ["--tile", "64", "--noise"], "--tile and --noise exclude each other"),
    ],
)
def test_wrong_options(
    program: ModuleType, arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as exit_info:
        program.parse_arguments(arguments)
    assert exit_info.value.code == 2
    assert message in capsys.readouterr().err


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--host", "no such host", "--token-file", "TOKEN"], "--host no such host: .*Choose another."),
    ],
)
def test_a_service_that_cannot_start_prints_one_line(
    tiny_run: Path, tmp_path: Path, options: list[str], message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("TOKEN").write_text("0123456789abcdef")
    with pytest.raises(ConfigError, match=message), serving("--checkpoint", tiny_run, *options):
        pass
