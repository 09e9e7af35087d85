import json
import subprocess
import sys
from pathlib import Path

import pytest

from training.run_folder import recorded
from utils import cli
from utils.log import log_to_console, logger

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


ROOT = Path(__file__).parents[2]
SCRIPT = """
import contextlib, io, json, sys
import train
from tools.check_data.__main__ import main as check_data
from tools.playground.__main__ import main as playground
from tools.serve.__main__ import main as serve
from utils.cli import run_entry_point

programs = {"train": train.main, "check_data": check_data, "playground": playground, "serve": serve}
found = []
for program, *arguments in json.loads(sys.argv[1]):
    sys.argv = [program, *arguments]
    with contextlib.redirect_stderr(io.StringIO()) as errors:
        try:
            code = run_entry_point(programs[program])
        except SystemExit as of_options:
            code = of_options.code
    found.append([code, errors.getvalue(), sorted({"torch", "numpy", "PIL"} & set(sys.modules))])
print(json.dumps(found))
"""
CASES = [
    (["train", "--config", "demo", "train.batchsize=2"], "did you mean train.batch_size?"),
    (["train", "--config", "demo", "loss.class_weights={car: x}"], "car has x, expected a number"),
    (["train", "--config", "pix2pix_maps", "data.label_colors=missing.yaml"], "no such file: missing.yaml"),
    (["serve", "--nosuch"], "unrecognized arguments: --nosuch"),
    (["playground", "--port", "0"], "'0' is not a whole number from 1 to 65535"),
    (["check_data", "/nowhere"], "/nowhere: no such folder"),
]


def test_errors_of_settings_and_folders_come_before_slow_imports() -> None:
    commands = json.dumps([words for words, _ in CASES])
    result = subprocess.run([sys.executable, "-c", SCRIPT, commands], capture_output=True, text=True, cwd=ROOT)
    assert result.returncode == 0, result.stderr
    for (words, expected), (code, error, slow) in zip(CASES, json.loads(result.stdout), strict=True):
        assert (code, slow) == (2, []), words
        assert expected in error


@pytest.mark.slow
def test_test_py_starts_without_the_compiler_and_torchvision_which_imports_it() -> None:
    code = "import sys, inference.translate; print({'torch._dynamo', 'torchvision'} & set(sys.modules))"
    assert subprocess.check_output([sys.executable, "-c", code], text=True, cwd=ROOT) == "set()\n"
