"""The server of the playground: translations as test.py's, and clear answers to everything else."""

import re
import socket
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import numpy as np
import pytest

from tests.conftest import save_image
from tests.runs import STYLE, untrained_run
from tests.tools.playground.pages import N_CLASSES, STRONG, expected, post, serving
from tests.tools.serve.services import ask
from tools.playground.__main__ import parse_arguments
from tools.playground.server import Playground
from tools.serve import app
from tools.serve.web import WebServer


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
    assert (status, body) == (400, b"sample 3: there are 3\n")


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
