from pathlib import Path

import pytest

from utils import cli
from utils.cli import print_first


@pytest.fixture
def torchrun(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "attempt_0" / "0").mkdir(parents=True)
    monkeypatch.setenv("TORCHELASTIC_ERROR_FILE", str(tmp_path / "attempt_0" / "0" / "error.json"))
    monkeypatch.setenv("WORLD_SIZE", "2")
    monkeypatch.setattr(cli, "PATIENCE_S", 0.05)


@pytest.mark.usefixtures("torchrun")
def test_the_first_error_is_printed_and_no_other(capsys: pytest.CaptureFixture[str]) -> None:
    print_first(["error: data.root\n"])
    print_first(["error: data.root\n"])
    print_first(["error: another process has ended\n"], is_consequence=True)
    assert capsys.readouterr().err == "error: data.root\n"


@pytest.mark.usefixtures("torchrun")
def test_a_consequence_does_not_hide_the_error_that_comes_after_it(capsys: pytest.CaptureFixture[str]) -> None:
    print_first(["error: another process has ended\n"], is_consequence=True)
    print_first(["error: data.root\n"])
    assert capsys.readouterr().err == "error: another process has ended\nerror: data.root\n"
