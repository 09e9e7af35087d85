"""Requests that no well-behaved client sends, and who may ask: the server answers each one, and goes on."""

import asyncio
import socket
import time
from collections.abc import Iterator
from pathlib import Path
from unittest.mock import Mock

import pytest
from starlette.requests import Request
from starlette.types import Message, Receive, Scope, Send

from inference.predictor import Predictor
from tests.tools.playground import pages
from tests.tools.serve.services import FORM, ask, form, png, sent
from tools.serve import gate, web
from tools.serve.command_line import TOKEN
from tools.serve.gate import Gate, read_token
from tools.serve.web import WebServer
from utils.errors import ConfigError

CONTINUE = "HTTP/1.1 100 Continue\r\n\r\n"
INVALID = "Invalid HTTP request received."
FOREIGN = "answers at http://127.0.0.1:"
OTHER_PAGE = "web pages of other sites"
DRAWING = form(source=png(8, 8), instances=png(8, 8))


@pytest.fixture(scope="module")
def server(tiny_run: Path) -> Iterator[WebServer]:
    with pages.serving("--checkpoint", str(tiny_run), "--opt-level", "O0") as running:
        yield running


NOT_THERE = "there is no such address"


@pytest.mark.parametrize(
    ("line", "fields", "status", "answer"),
    [
        ("GET /samples/%2e%2e%2fetc", {}, 404, NOT_THERE),
        ("GET http://[", {}, 404, NOT_THERE),
        ("GET /nothing", {"Upgrade": "websocket", "Connection": "upgrade, close"}, 404, f"GET /nothing: {NOT_THERE}"),
        ("PUT /translate", {}, 405, " /translate: use POST"),
        ("POST /translate?seed=99999999999", {}, 400, "seed='99999999999'"),
        ("POST /translate?percent=%D9%A3", {}, 400, "expected a whole number"),
        ("POST /translate", {"Content-Length": "99999999999", "Expect": "100-continue"}, 413, "99,999,999,999 bytes"),
        ("POST /translate", {"Content-Length": "-5"}, 400, INVALID),
        ("GET /translate", {"Host": "127.0.0.1.evil.example"}, 421, FOREIGN),
        ("GET /translate", {"Host": ""}, 421, FOREIGN),
        ("GET /translate", {"Host": "[::1]"}, 405, ""),
        ("GET /translate", {"Origin": "http://127.0.0.1:1"}, 403, OTHER_PAGE),
        ("GET /translate", {"Origin": "null"}, 403, OTHER_PAGE),
        ("GET /translate", {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate"}, 403, OTHER_PAGE),
        ("GET /", {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "no-cors"}, 403, OTHER_PAGE),
        ("GET /", {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate"}, 200, "<title>"),
    ],
)
def test_hostile_requests_are_answered(
    server: WebServer, monkeypatch: pytest.MonkeyPatch, line: str, fields: dict[str, str], status: int, answer: str
) -> None:
    monkeypatch.setattr(gate, "LINGER_S", 0.05)
    all_fields = {"Host": "127.0.0.1", "Connection": "close"} | fields
    head = [f"{line} HTTP/1.1", *(f"{name}: {value}" for name, value in all_fields.items()), "", ""]
    received = sent(server, "\r\n".join(head).encode()).removeprefix(CONTINUE)
    assert received.startswith(f"HTTP/1.1 {status} "), received
    assert answer in received.partition("\r\n\r\n")[2]
    assert "Traceback" not in received
    assert ask(server, "/translate").status == 405


@pytest.mark.parametrize("end_of_head", ["", "\r\n\r\n"])
def test_a_silent_client_is_left(server: WebServer, monkeypatch: pytest.MonkeyPatch, end_of_head: str) -> None:
    monkeypatch.setattr(web, "SILENCE_S", 0.1)
    head = "POST /translate?seed=0 HTTP/1.1\r\nHost: 127.0.0.1\r\n"
    head += "Content-Type: application/octet-stream\r\nContent-Length: 512"
    assert sent(server, f"{head}{end_of_head}".encode()) == ""
    assert ask(server, "/translate").status == 405


def test_a_head_that_never_ends_is_left(server: WebServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(web, "SILENCE_S", 0.1)

    def send_slowly() -> None:
        with socket.create_connection(("127.0.0.1", server.port), timeout=20) as connection:
            connection.sendall(b"GET /health HTTP/1.1\r\nHost: 127.0.0.1\r\nX: ")
            for _ in range(1000):
                connection.sendall(b"x")
                time.sleep(0.02)

    with pytest.raises(ConnectionError):
        send_slowly()


@pytest.mark.parametrize(
    ("error", "status", "answer"),
    [
        (RuntimeError("DefaultCPUAllocator: can't allocate memory"), 507, b"out of memory. "),
        (ValueError("a fault"), 500, b"the translation failed. See the terminal.\n"),
    ],
)
def test_a_failed_translation_leaves_the_server_alive(
    server: WebServer, monkeypatch: pytest.MonkeyPatch, error: Exception, status: int, answer: bytes
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(Predictor, "translate", Mock(side_effect=error))
        found = ask(server, "/translate", DRAWING, FORM)
    assert found.status == status
    assert found.body.startswith(answer)
    assert ask(server, "/translate", DRAWING, FORM).status == 200


TO_THIS = {"type": "http", "method": "POST", "path": "/", "headers": [(b"host", b"localhost")]}


class Body:
    """A body that stalls after some bytes, and the answer to it."""

    def __init__(self, n_bytes: int) -> None:
        self.messages: list[Message] = [{"type": "http.request", "body": bytes(n_bytes), "more_body": True}]
        self.answer = list[Message]()

    async def receive(self) -> Message:
        if not self.messages:
            await asyncio.sleep(60)
        return self.messages.pop()

    async def send(self, message: Message) -> None:
        self.answer.append(message)

    def text(self) -> tuple[int, bytes]:
        start, body = self.answer[:2]
        return start["status"], body["body"]


async def read_all(scope: Scope, receive: Receive, _send: Send) -> None:
    await Request(scope, receive).body()


def test_the_bodies_of_all_requests_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """64 of the largest size may be under way. Here each lacks its end."""
    monkeypatch.setattr(gate, "LINGER_S", 0.01)

    async def main() -> Body:
        one, bodies = Gate(read_all, 100, ""), [Body(99) for _ in range(64)] + [Body(64), Body(99)]
        tasks = [asyncio.create_task(one(TO_THIS, body.receive, body.send)) for body in bodies]
        while not bodies[-1].answer:
            await asyncio.sleep(0)
        assert [body for body in bodies if body.answer] == bodies[-1:]
        tasks.pop(0).cancel()
        tasks.append(asyncio.create_task(one(TO_THIS, (other := Body(50)).receive, other.send)))
        await asyncio.sleep(0.05)
        assert other.answer == []  # the refused request takes no room, although its client is waited for
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)
        assert other.text() == (503, b"the server is stopping. Try again later.\n")
        return bodies[-1]

    assert asyncio.run(main()).text() == (503, b"current requests already have 6,499 bytes. Try again later.\n")


def test_only_other_machines_need_a_token(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(TOKEN, raising=False)
    assert [read_token(None, host) for host in ("127.0.0.1", "::1", "localhost")] == [None] * 3
    for host in ("::", "example.org"):
        with pytest.raises(ConfigError, match=r"everybody could use the server\. Add --token-file FILE"):
            read_token(None, host)
    monkeypatch.setenv(TOKEN, "0123456789abcdef")
    assert read_token(None, "0.0.0.0") == "0123456789abcdef"


@pytest.mark.parametrize("text", ["short", "with a space in it", "0123456789abcdé", "two\nlines of a file"])
def test_a_token_is_a_long_word(text: str, tmp_path: Path) -> None:
    (tmp_path / "token").write_text(text)
    with pytest.raises(ConfigError, match="token: expected a word of 16 or more ASCII characters"):
        read_token(tmp_path / "token", "127.0.0.1")
