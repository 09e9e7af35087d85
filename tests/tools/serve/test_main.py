"""The command line of the service: its options and its token."""

from pathlib import Path
from types import ModuleType

import pytest

from tests.tools.serve.services import serving
from tools.playground import __main__ as playground
from tools.serve import __main__ as serve
from tools.serve.command_line import TOKEN
from tools.serve.start import read_token
from utils.errors import ConfigError


@pytest.mark.parametrize("host", ["127.0.0.1", "::1", "localhost"])
def test_this_machine_needs_no_token(host: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(TOKEN, raising=False)
    assert read_token(None, host) is None


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "example.org", "10.0.0.1"])
def test_others_need_one(host: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(TOKEN, raising=False)
    with pytest.raises(ConfigError, match=r"others could use the server\. Add --token-file FILE, or set PAIRGAN_TOKEN"):
        read_token(None, host)
    monkeypatch.setenv(TOKEN, "0123456789abcdef")
    assert read_token(None, host) == "0123456789abcdef"


@pytest.mark.parametrize("text", ["", "short", "with a space in it", "0123456789abcdé", "two\nlines of a file"])
def test_a_token_is_long_and_a_word(text: str, tmp_path: Path) -> None:
    (tmp_path / "token").write_text(text)
    with pytest.raises(ConfigError, match="token: expected a word of 16 or more ASCII characters"):
        read_token(tmp_path / "token", "127.0.0.1")


@pytest.mark.parametrize(
    ("program", "arguments", "message"),
    [
        (serve, ["--port", "70000"], "'70000' is not a whole number from 0 to 65535"),
        (serve, ["--batch-size", "0"], "'0' is not a whole number above 0"),
        (playground, ["--port", "0"], "'0' is not a whole number from 1 to 65535"),
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
        (["--style", "a.png", "--style", "b.png"], "--style: given several times; the service translates in one style"),
        (["--checkpoint", "nothing.onnx"], r"nothing\.onnx: is missing, or no \.onnx file"),
        (["--host", "no such host", "--token-file", "TOKEN"], "--host no such host: .*Choose another."),
    ],
)
def test_what_cannot_be_served_is_one_line(
    tiny_run: Path, tmp_path: Path, options: list[str], message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("TOKEN").write_text("0123456789abcdef")
    with pytest.raises(ConfigError, match=message), serving("--checkpoint", tiny_run, *options):
        pass
