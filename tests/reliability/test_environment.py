"""Row 17: what surrounds the program is missing, full, forbidden, far or odd: it works, or says at once what to do."""

import os
import socket
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.error import URLError

import pytest
import torch

import train
from losses import perceptual
from losses.perceptual import VGG19Loss
from tests import processes
from tests.conftest import TINY_CONFIG
from tests.processes import PATIENCE_S
from tests.reliability.command_line import CommandLine
from tests.reliability.faults import throw
from tests.runs import checkpoint, run, translation_script, wait_until
from utils import pretrained
from utils.checkpoint_folder import list_checkpoints
from utils.errors import UserError
from utils.pretrained import WeightsError

pytestmark = pytest.mark.row(17)

ROOT = Path(__file__).parents[2]


def refusal(command_line: CommandLine, config: Path, *overrides: str) -> str:
    (line,) = command_line.refusal(train.main, "--config", str(config), *overrides)
    return line


def in_shell(command: str, cwd: Path = ROOT, **environment: str | None) -> subprocess.CompletedProcess[str]:
    """Run a line of shell, `$PYTHON` for this interpreter; None takes a variable away."""
    variables = {**os.environ, "PYTHON": sys.executable, "REPOSITORY": str(ROOT), "OMP_NUM_THREADS": "1", **environment}
    present = {key: value for key, value in variables.items() if value is not None}
    options: dict[str, Any] = {"capture_output": True, "text": True, "errors": "replace", "timeout": PATIENCE_S}
    return subprocess.run(["bash", "-c", command], cwd=cwd, env=present, **options)


def assert_refused_in_one_line(ended: subprocess.CompletedProcess[str], words: str) -> None:
    assert (ended.returncode, ended.stderr.count("\n")) == (2, 1), ended.stderr
    assert ended.stderr.startswith("error: ")
    assert words in ended.stderr


def test_runs_in_a_place_that_cannot_hold_them_are_refused(
    tiny_config: Path, tmp_path: Path, command_line: CommandLine
) -> None:
    taken = tmp_path / "taken"
    taken.write_text("taken")
    for place in (taken, taken / "below", Path("/proc/nowhere")):
        assert str(place) in refusal(command_line, tiny_config, f"run.root={place}")
    assert taken.read_text() == "taken"


def test_a_read_only_output_is_refused_before_anything_is_translated(
    tiny_run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command_line: CommandLine
) -> None:
    """By monkeypatch, since root may write everywhere."""
    monkeypatch.setattr(os, "access", lambda *_: False)
    output = tmp_path / "out"
    arguments = ["--checkpoint", str(tiny_run), "--output", str(output)]
    lines = command_line.refusal(translation_script().main, *arguments)
    assert lines == [f"error: {output}: Permission denied: change its permissions, or choose another place"]
    assert list(output.iterdir()) == []


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is one")
def test_a_gpu_that_is_not_there_is_told(tiny_config: Path, tmp_path: Path, command_line: CommandLine) -> None:
    line = refusal(command_line, tiny_config, "run.device=cuda")
    assert line == "error: run.device=cuda: torch finds no GPU on this machine. Use run.device=cpu or run.device=auto."
    arguments = ["--checkpoint", str(tmp_path), "--device", "cuda"]
    assert "Use --device cpu or --device auto." in command_line.refusal(translation_script().main, *arguments)[0]


@pytest.mark.parametrize(
    ("option", "streams", "returncode"),
    [
        pytest.param("", "| true; exit ${PIPESTATUS[0]}", 0, marks=pytest.mark.slow),
        pytest.param("-u", "| true; exit ${PIPESTATUS[0]}", 128 + 13, marks=pytest.mark.slow),
        pytest.param("", "<&- >&- 2>&-", 0, marks=pytest.mark.slow),
        ("", "run.sed=1 >&- 2>&-", 2),
    ],
    ids=["reader gone", "reader gone, no buffer", "no streams", "no stderr to complain to"],
)
def test_streams_may_be_closed(option: str, streams: str, returncode: int) -> None:
    command = f"$PYTHON {option} train.py --config configs/demo.yaml --print-config {streams}"
    ended = in_shell(command, PYTHONUNBUFFERED=None)
    assert (ended.returncode, ended.stderr) == (returncode, "")


# runs programs with their arguments in one interpreter
ONE_BY_ONE = """
import runpy, sys
ends = [number for number, word in enumerate(sys.argv) if word == '--then'] + [len(sys.argv)]
both = [sys.argv[begin + 1 : end] for begin, end in zip([0] + ends, ends)]
for sys.argv in both:
    try:
        runpy.run_path(sys.argv[0], run_name='__main__')
    except SystemExit as end:
        if end.code:
            raise
"""
ODD: dict[str, str | None] = {"LC_ALL": "C", "PYTHONIOENCODING": "ascii", "TMPDIR": "/nowhere", "HOME": None}


def test_a_run_works_wherever_it_is_and_whatever_surrounds_it(tmp_path: Path) -> None:
    """From another working directory, without standard input, trained and translated; torch is imported once."""
    place = tmp_path / "runs of mine/Überläufe"
    place.mkdir(parents=True)
    (place / "tiny ü.yaml").write_text(TINY_CONFIG.format(root="runs"), encoding="utf-8")
    script = (
        'SETTINGS=("run.name=größe 1" data.workers=1 train.max_steps=1);'
        f'$PYTHON -c "{ONE_BY_ONE}" "$REPOSITORY/train.py" --config "tiny ü.yaml" "${{SETTINGS[@]}}"'
        ' --then "$REPOSITORY/test.py" --output "bilder ß" <&-'
    )
    ended = in_shell(script, cwd=place, **ODD, PYTHONPATH=str(ROOT), PYTHONSAFEPATH="1")
    assert ended.returncode == 0, ended.stderr
    assert (place / "runs" / "größe 1" / "checkpoint-00000001.pt").is_file()
    assert (place / "bilder ß" / "contact_sheet.png").is_file()
    assert {path.name for path in place.glob("[!.]*")} == {"bilder ß", "runs", "tiny ü.yaml"}


def test_recipes_are_checked_from_any_folder_and_by_optimized_python(tmp_path: Path) -> None:
    """The folder has packages of the same names, such as a clone of the originals."""
    for package in ("configs", "data", "models", "utils"):
        (tmp_path / package).mkdir()
        (tmp_path / package / "__init__.py").touch()
    ended = in_shell('$PYTHON -O "$REPOSITORY/train.py" --config configs/demo.yaml train.batch_size=0', cwd=tmp_path)
    assert_refused_in_one_line(ended, "train.batch_size")


def test_without_network_the_weights_are_told_with_their_place_and_how_to_do_without(
    tiny_config: Path, hub: Path, monkeypatch: pytest.MonkeyPatch, command_line: CommandLine
) -> None:
    monkeypatch.setattr("torch.hub.urlopen", lambda *_, **__: throw(URLError("Name or service not known")))
    message = refusal(command_line, tiny_config, "loss.perceptual=10")
    for words in ("vgg19-dcbb9e9d.pth (548 MB)", str(hub), "Name or service not known", "TORCH_HOME"):
        assert words in message
    assert message.endswith("loss.perceptual=0 or loss.perceptual_network=efficientnet_lite0 loss.perceptual=20.")
    assert list(hub.iterdir()) == []


def hang_up(server: socket.socket) -> None:
    """Answer a request with half of what is promised."""
    connection, _ = server.accept()
    with connection:
        connection.recv(65536)
        connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n" + bytes(500))


@pytest.mark.parametrize(("answer", "reason"), [(None, "timed out"), (hang_up, "")], ids=["falls silent", "hangs up"])
def test_a_server_that_does_not_send_the_weights_leaves_nothing(
    hub: Path, monkeypatch: pytest.MonkeyPatch, answer: Callable[[socket.socket], None] | None, reason: str
) -> None:
    monkeypatch.setattr(pretrained, "SILENCE_S", 0.2 if answer is None else 60)
    with socket.create_server(("127.0.0.1", 0)) as server, ThreadPoolExecutor(1) as threads:
        if answer:
            threads.submit(answer, server)
        url = f"http://127.0.0.1:{server.getsockname()[1]}/vgg19-dcbb9e9d.pth"
        monkeypatch.setattr(perceptual, "VGG19", replace(perceptual.VGG19, url=url))
        monkeypatch.setenv("no_proxy", "127.0.0.1")
        with pytest.raises(WeightsError, match=f"could not be downloaded .*{reason}.* or set loss.perceptual=0"):
            VGG19Loss(activation_checkpointing=False)
    assert socket.getdefaulttimeout() is None
    assert list(hub.iterdir()) == []


def test_the_second_is_refused_and_the_first_goes_on(tiny_config: Path) -> None:
    folder = tiny_config.parent / "runs" / "tiny"
    first = processes.start(tiny_config, "train.max_steps=1000000", "checkpoint.every_steps=1")
    try:
        wait_until(lambda: bool(list_checkpoints(folder)))
        with pytest.raises(UserError, match=r"tiny: another process is training this run\. Wait .* run\.name"):
            run(tiny_config, "--resume", "never")
        assert not folder.with_name("tiny.1").exists()
        newest = list_checkpoints(folder)[-1].name
        wait_until(lambda: list_checkpoints(folder)[-1].name > newest)
    finally:
        first.kill()
        first.join()
    run(tiny_config, "--resume", "never")  # the lock of a killed run is free
    assert checkpoint(tiny_config, 4)["step"] == 4
