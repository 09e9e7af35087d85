"""Control characters of names and errors are escaped on the console and in log.txt."""

from pathlib import Path

import pytest

from training.run_folder import recorded
from utils.log import log_to_console, logger

NAME = "a\nerror: forged\x1b[2J\udcff\u202e.png"
ESCAPED = r"a\nerror: forged\x1b[2J\udcff\u202e.png"


def test_a_message_is_one_line_on_the_console_and_in_the_log(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log_to_console(is_main=True)
    with recorded(tmp_path) as session:
        session.begin(0)
        logger.warning("skipped %s", NAME)
    assert capsys.readouterr().out == f"skipped {ESCAPED}\n"
    _, skipped, _ = (tmp_path / "log.txt").read_text().splitlines()
    assert skipped.endswith(f" skipped {ESCAPED}")
