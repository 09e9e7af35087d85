"""Refusals of the gate without a server, and its token."""

import asyncio
from pathlib import Path

import pytest
from starlette.requests import Request
from starlette.types import Message, Receive, Scope, Send

from tools.serve import gate
from tools.serve.command_line import TOKEN
from tools.serve.gate import Gate, read_token
from utils.errors import ConfigError

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
        assert other.text() == (503, b"the server stops: try again later\n")
        return bodies[-1]

    assert asyncio.run(main()).text() == (503, b"requests of 6,499 bytes are under way: try again later\n")


@pytest.mark.parametrize("host", ["127.0.0.1", "::1", "localhost"])
def test_this_machine_needs_no_token(host: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(TOKEN, raising=False)
    assert read_token(None, host) is None


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "example.org"])
def test_others_need_a_token(host: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(TOKEN, raising=False)
    with pytest.raises(ConfigError, match=r"others could use the server\. Add --token-file FILE, or set PAIRGAN_TOKEN"):
        read_token(None, host)
    monkeypatch.setenv(TOKEN, "0123456789abcdef")
    assert read_token(None, host) == "0123456789abcdef"


@pytest.mark.parametrize("text", ["short", "with a space in it", "0123456789abcdé", "two\nlines of a file"])
def test_a_token_is_a_long_word(text: str, tmp_path: Path) -> None:
    (tmp_path / "token").write_text(text)
    with pytest.raises(ConfigError, match="token: expected a word of 16 or more ASCII characters"):
        read_token(tmp_path / "token", "127.0.0.1")
