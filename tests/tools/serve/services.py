"""A service in this process, and requests to it."""

import http.client
import socket
import threading
from collections.abc import Coroutine, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from io import BytesIO
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
import torch
from PIL import Image

import tests.processes  # noqa: F401 - sets what the processes of other tests share
from data.batch import Batch
from inference.predictor import Predictor
from tests.conftest import save_image
from tools.serve import file_processes
from tools.serve.__main__ import parse_arguments
from tools.serve.app import Service
from tools.serve.app import serving as serving_app
from tools.serve.gate import read_token
from tools.serve.translation import TranslationQueue
from tools.serve.web import WebServer

file_processes.PRELOADED += ["tests.processes"]  # one server forks the processes of all tests
BOUNDARY = "0123456789abcdef"
FORM = {"Content-Type": f"multipart/form-data; boundary={BOUNDARY}"}


class Answer(NamedTuple):
    status: int
    body: bytes
    headers: http.client.HTTPMessage


@contextmanager
def running(opening: AbstractContextManager[WebServer]) -> Iterator[WebServer]:
    """Let a server answer in a thread of its own."""
    with opening as server:
        thread = threading.Thread(target=server.run)
        thread.start()
        try:
            yield server
        finally:
            server.should_exit = True
            thread.join()


def serving(*arguments: object) -> AbstractContextManager[WebServer]:
    parsed = parse_arguments([*map(str, arguments), "--port", "0"])
    return running(serving_app(Service, parsed, read_token(parsed.token_file, parsed.host)))


def draw(folder: Path, height: int = 19, width: int = 45) -> tuple[bytes, bytes]:
    """Write a label map of the synthetic facades and its instances; return both files."""
    rng = np.random.default_rng(height)
    save_image(folder / "photo.png", rng.integers(0, 12, (height, width), dtype=np.uint8))
    save_image(folder / "instances" / "photo.png", rng.integers(0, 9, (height, width), dtype=np.uint16))
    return (folder / "photo.png").read_bytes(), (folder / "instances" / "photo.png").read_bytes()


class Hold:
    """Holds translations back until it is opened. n_read: Number of requests that wait for it or passed it."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.begun, self.opened = threading.Event(), threading.Event()
        self.sizes: list[int] = []
        self.n_read = 0
        translate, queued = Predictor.translate, TranslationQueue.translate

        def held(predictor: Predictor, batch: Batch) -> torch.Tensor:
            self.sizes.append(len(batch.names))
            self.begun.set()
            self.opened.wait(60)
            return translate(predictor, batch)

        def counted(queue: TranslationQueue, *arguments: Any) -> Coroutine[Any, Any, Any]:
            self.n_read += 1
            return queued(queue, *arguments)

        monkeypatch.setattr(Predictor, "translate", held)
        monkeypatch.setattr(TranslationQueue, "translate", counted)


def ask(
    server: WebServer,
    path: str,
    body: bytes | Iterator[bytes] | None = None,
    headers: Mapping[str, str] | None = None,
    method: str = "",
) -> Answer:
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=60)
    try:
        connection.request(method or ("GET" if body is None else "POST"), path, body, dict(headers or {}))
        answer = connection.getresponse()
        return Answer(answer.status, answer.read(), answer.headers)
    finally:
        connection.close()


def form(**files: bytes) -> bytes:
    """The body of a request with files of a form; each is called as it would be on a disk."""
    parts = [
        f'--{BOUNDARY}\r\nContent-Disposition: form-data; name="{kind}"; filename="photo.x"\r\n\r\n'.encode() + content
        for kind, content in files.items()
    ]
    return b"\r\n".join(parts) + f"\r\n--{BOUNDARY}--\r\n".encode()


def sent(server: WebServer, text: bytes) -> str:
    """Send bytes unchanged, and return the whole answer."""
    with socket.create_connection(("127.0.0.1", server.port), timeout=60) as connection:
        connection.sendall(text)
        return b"".join(iter(lambda: connection.recv(65536), b"")).decode()


def png(height: int, width: int, value: int = 0) -> bytes:
    """A map of one id."""
    file = BytesIO()
    Image.fromarray(np.full((height, width), value, np.uint8)).save(file, "PNG")
    return file.getvalue()


def levels(image: bytes) -> np.ndarray:
    return np.asarray(Image.open(BytesIO(image))).astype(int)
