"""The server of the playground in a thread of the test, and requests to it."""

import http.client
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np

from tools.playground.__main__ import parse_arguments, playground
from tools.playground.server import PlaygroundServer

BINARY = {"Content-Type": "application/octet-stream"}


@contextmanager
def serving(*arguments: str) -> Iterator[PlaygroundServer]:
    """The server at a port that is free."""
    with playground(parse_arguments([*arguments, "--no-browser"])) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()


def ask(
    server: PlaygroundServer, method: str, path: str, body: bytes | None = None, **headers: str
) -> tuple[int, bytes, http.client.HTTPMessage]:
    connection = http.client.HTTPConnection("127.0.0.1", server.server_port, timeout=60)
    try:
        connection.request(method, path, body, {name.replace("_", "-"): value for name, value in headers.items()})
        answer = connection.getresponse()
        return answer.status, answer.read(), answer.headers
    finally:
        connection.close()


def post(server: PlaygroundServer, *maps: np.ndarray, seed: int = 0) -> tuple[int, bytes]:
    height, width = maps[0].shape[:2]
    body = b"".join(image.tobytes() for image in maps)
    status, answer, _ = ask(server, "POST", f"/translate?width={width}&height={height}&seed={seed}", body, **BINARY)
    return status, answer
