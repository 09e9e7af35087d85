"""The server of the playground: translations as test.py's, clear answers, and how a signal stops it."""

import os
import re
import signal
import socket
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from tests.conftest import save_image
from tests.processes import start_program
from tests.runs import STYLE, untrained_run, wait_until
from tests.tools.playground.pages import N_CLASSES, STRONG, expected, post, serving
from tests.tools.serve.services import FORM, ask, form, png
from tools.playground.__main__ import parse_arguments
from tools.playground.server import Playground
from tools.serve import app
from tools.serve.translation import Translator
from tools.serve.web import WebServer
from utils.errors import UserError


@pytest.fixture(scope="module")
def server(tiny_run: Path) -> Iterator[WebServer]:
    with serving("--checkpoint", str(tiny_run)) as running:
        yield running


def drawing(
    rng: np.random.Generator, height: int, width: int, n_classes: int = N_CLASSES
) -> tuple[np.ndarray, np.ndarray]:
    labels = rng.integers(0, n_classes, (height, width), dtype=np.int32)
    return labels, rng.integers(0, 9, (height, width), dtype=np.int32)


def test_a_drawing_is_translated_as_its_files_are(server: WebServer, tiny_run: Path, tmp_path: Path) -> None:
    for size in ((19, 45), (3, 5)):
        labels, instances = drawing(np.random.default_rng(0), *size)
        status, answer = post(server, labels, instances)
        assert status == 200, answer
        wanted = expected(tmp_path / str(size), labels, instances, "--checkpoint", str(tiny_run))
        assert np.array_equal(np.frombuffer(answer, np.uint8).reshape(*size, 3), wanted)


def test_samples_of_the_test_split(server: WebServer) -> None:
    status, body, headers = ask(server, "/samples/2")
    assert (status, headers["X-Width"], headers["X-Height"]) == (200, "32", "32")
    assert len(body) == 32 * 32 * 8
    assert np.frombuffer(body, "<i4", 32 * 32).max() < N_CLASSES
    status, body, _ = ask(server, "/samples/3")
    assert (status, body) == (400, b"sample 3: there are only 3 samples. Choose a smaller number.\n")


def test_the_page_requests_nothing_from_elsewhere(server: WebServer) -> None:
    status, page, headers = ask(server, "/")
    assert status == 200
    assert b"http" not in page
    assert "default-src 'none'" in headers["Content-Security-Policy"]
    nonce = re.search(r"'nonce-([^']+)'", headers["Content-Security-Policy"])
    assert nonce is not None
    assert page.count(b"<script") == page.count(f'nonce="{nonce[1]}"'.encode()) - 1  # and the style


def test_connections_wait_for_their_turn(tiny_run: Path) -> None:
    arguments = parse_arguments(["--checkpoint", str(tiny_run), "--no-browser"])
    with app.serving(Playground, arguments, None) as server, ExitStack() as connections:  # it answers none yet
        for _ in range(100):
            connections.enter_context(socket.create_connection(("127.0.0.1", server.port), timeout=5))


ODD = (37, 51)


def test_styles_are_of_seeds_or_photographs_and_between_two_of_them(tiny_config: Path) -> None:
    command = ("--checkpoint", str(untrained_run(tiny_config, *STYLE, STRONG)), "--opt-level", "O0")
    drawn, folder = drawing(np.random.default_rng(0), *ODD), tiny_config.parent
    photos = [folder / f"{name}.png" for name in ("bright", "dark")]
    for photo, level in zip(photos, (250, 5), strict=True):
        save_image(photo, np.full((20, 30, 3), level, np.uint8))
    ways = {"seeds": ["--seed", "1"], "photographs": ["--style", str(photos[1])]}
    for way, options in ways.items():
        others = ["--style", str(photos[0]), "--style", str(photos[1])] if way == "photographs" else []
        with serving(*command, *others) as server:
            first, second, start, middle, end = (
                post(server, *drawn, seed=seed, then=then)[1]
                for seed, then in ((0, ""), (1, ""), *((0, f"&other=1&percent={n}") for n in (0, 50, 100)))
            )
        assert len({first, second, middle}) == 3, way
        assert (start, end) == (first, second), way
        assert second == expected(folder, *drawn, *command, *options).tobytes(), way


def test_a_port_in_use_is_an_error_only_if_it_was_asked_for(tiny_run: Path) -> None:
    with serving("--checkpoint", str(tiny_run)) as server:
        taken = str(server.port)
        message = f"--port {taken}: Address already in use. Choose another value."
        with pytest.raises(UserError, match=message), serving("--checkpoint", str(tiny_run), "--port", taken):
            pass
        with serving("--checkpoint", str(tiny_run)) as second:
            assert second.port != server.port


def use_for_temporary_files(folder: Path) -> None:
    tempfile.tempdir = str(folder)


def test_a_signal_stops_the_service_and_nothing_is_left(tiny_run: Path, tmp_path: Path) -> None:
    (tmp_path / "tmp").mkdir()
    command = ["-m", "tools.serve", "--port", "0", "--checkpoint", str(tiny_run)]
    process = start_program(command, tmp_path / "out", partial(use_for_temporary_files, tmp_path / "tmp"))
    wait_for_text(tmp_path / "out", "Ctrl-C stops")
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
    wait_for_text(out, "Ctrl-C stops")
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
