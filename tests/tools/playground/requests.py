"""Requests to the server of the playground."""

import http.client

import numpy as np

from tools.playground.server import PlaygroundServer

BINARY = {"Content-Type": "application/octet-stream"}


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
