"""The command line of the playground: its options and its port; how a signal stops it, and the service."""

import os
import re
import signal
import socket
import sys
import tempfile
import time
from functools import partial
from pathlib import Path

import pytest

from tests.processes import start_program
from tests.runs import wait_until
from tests.tools.playground.pages import serving
from tests.tools.serve.services import FORM, form, png
from tools.serve.translation import Translator
from utils.errors import UserError


def test_a_port_in_use_is_an_error_only_if_it_was_asked_for(tiny_run: Path) -> None:
    with serving("--checkpoint", str(tiny_run)) as server:
        taken = str(server.port)
        message = f"--port {taken}: Address already in use. Choose another."
        with pytest.raises(UserError, match=message), serving("--checkpoint", str(tiny_run), "--port", taken):
            pass
        with serving("--checkpoint", str(tiny_run)) as second:
            assert second.port != server.port


def use_for_temporary_files(folder: Path) -> None:
    tempfile.tempdir = str(folder)


@pytest.mark.parametrize("own", [["tools.playground", "--no-browser"], ["tools.serve", "--port", "0"]])
def test_a_signal_stops_a_server_and_nothing_is_left(tiny_run: Path, tmp_path: Path, own: list[str]) -> None:
    (tmp_path / "tmp").mkdir()
    command = ["-m", *own, "--checkpoint", str(tiny_run), "--tile", "16"]
    process = start_program(command, tmp_path / "out", partial(use_for_temporary_files, tmp_path / "tmp"))
    wait_for_text(tmp_path / "out", "Ctrl-C stops it")
    assert process.pid is not None
    os.kill(process.pid, signal.SIGTERM)
    process.join(60)
    assert process.exitcode == 0
    assert (tmp_path / "out").read_text().endswith("stopped\n")
    assert list((tmp_path / "tmp").iterdir()) == []


def translate_slowly(*_: object) -> None:
    sys.stdout.write("begun\n")
    sys.stdout.flush()
    time.sleep(600)


def make_slow(folder: Path) -> None:
    use_for_temporary_files(folder)
    Translator.translate = translate_slowly  # type: ignore[assignment, method-assign]


def test_a_second_signal_does_not_wait_for_the_translation(tiny_run: Path, tmp_path: Path) -> None:
    (tmp_path / "tmp").mkdir()
    out = tmp_path / "out"
    command = ["-m", "tools.playground", "--checkpoint", str(tiny_run), "--no-browser"]
    process = start_program(command, out, partial(make_slow, tmp_path / "tmp"))
    wait_for_text(out, "Ctrl-C stops it")
    port = re.search(r"http://127\.0\.0\.1:(\d+)/", out.read_text())
    assert port is not None
    assert process.pid is not None
    with socket.create_connection(("127.0.0.1", int(port[1])), timeout=60) as connection:
        body = form(source=png(8, 8), instances=png(8, 8))
        head = f"POST /translate HTTP/1.1\r\nHost: 127.0.0.1:{port[1]}\r\nContent-Length: {len(body)}\r\n"
        connection.sendall(f"{head}Content-Type: {FORM['Content-Type']}\r\n\r\n".encode() + body)
        wait_for_text(out, "begun")
        os.kill(process.pid, signal.SIGINT)
        wait_for_text(out, "Ctrl-C again stops at once")
        os.kill(process.pid, signal.SIGINT)
        process.join(60)
    assert process.exitcode == 130
    assert out.read_text().endswith("interrupted\n")
    assert list((tmp_path / "tmp").iterdir()) == []


def wait_for_text(path: Path, text: str) -> None:
    wait_until(lambda: path.exists() and text in path.read_text(), path.read_text)
