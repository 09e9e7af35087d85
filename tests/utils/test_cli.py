from pathlib import Path

import pytest

from utils import cli

CAUSE, CONSEQUENCE = "error: data.root\n", "error: another process has ended\n"


@pytest.mark.parametrize(
    ("errors", "printed"), [([CAUSE, CAUSE, CONSEQUENCE], [CAUSE]), ([CONSEQUENCE, CAUSE], [CONSEQUENCE, CAUSE])]
)
def test_only_the_first_error_is_printed_unless_it_is_a_consequence(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    errors: list[str],
    printed: list[str],
) -> None:
    (tmp_path / "attempt_0" / "0").mkdir(parents=True)
    monkeypatch.setenv("TORCHELASTIC_ERROR_FILE", str(tmp_path / "attempt_0" / "0" / "error.json"))
    monkeypatch.setenv("WORLD_SIZE", "2")
    monkeypatch.setattr(cli, "PATIENCE_S", 0.05)
    for error in errors:
        cli.print_first([error], is_consequence=error == CONSEQUENCE)
    assert capsys.readouterr().err == "".join(printed)
