"""Refusals of the gate without a server."""

import asyncio

import pytest
from starlette.requests import Request
from starlette.responses import PlainTextResponse
from starlette.types import Message, Receive, Scope, Send

from tools.serve import gate
from tools.serve.gate import Gate

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


async def read_all(scope: Scope, receive: Receive, _send: Send) -> None:
    await Request(scope, receive).body()


def test_the_bodies_of_all_requests_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """64 of the largest size may be under way; each of these lacks its end."""

    async def main() -> Body:
        one, bodies = Gate(read_all, 100, ""), [Body(99) for _ in range(64)] + [Body(64), Body(99)]
        tasks = [asyncio.create_task(one(TO_THIS, body.receive, body.send)) for body in bodies]
        while not bodies[-1].answer:
            await asyncio.sleep(0)
        assert [body for body in bodies if body.answer] == bodies[-1:]
        monkeypatch.setattr(gate, "LINGER_S", 0.01)
        tasks.pop(0).cancel()
        tasks.append(asyncio.create_task(one(TO_THIS, (other := Body(50)).receive, other.send)))
        await asyncio.sleep(0.05)
        assert other.answer == []  # the refused one, whose client is waited for, takes no room
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)
        ended = Body(100)
        ended.messages[0]["more_body"] = False
        await one(TO_THIS, ended.receive, ended.send)
        assert ended.answer == []  # there is room again
        return bodies[-1]

    start, text = asyncio.run(main()).answer
    assert (start["status"], text["body"]) == (503, b"requests of 6,499 bytes are under way: try again later\n")


def test_a_request_that_is_cancelled_is_answered(monkeypatch: pytest.MonkeyPatch) -> None:
    """A server that stops cancels the requests whose bodies do not come to their end."""
    monkeypatch.setattr(gate, "LINGER_S", 0.01)

    async def main() -> Body:
        body = Body(1)
        task = asyncio.create_task(Gate(read_all, 100, "")(TO_THIS, body.receive, body.send))
        await asyncio.sleep(0)
        task.cancel()
        await task
        return body

    start, text, _ = asyncio.run(main()).answer
    assert (start["status"], text["body"]) == (503, b"the server stops: try again later\n")


@pytest.mark.parametrize(("address", "url"), [("127.0.0.1", "http://127.0.0.1:80/"), ("::1", "http://[::1]:80/")])
def test_a_foreign_name_is_answered_with_the_address_of_the_server(address: str, url: str) -> None:
    answers: list[Message] = []

    async def receive() -> Message:
        return {"type": "http.request"}

    async def send(message: Message) -> None:
        answers.append(message)

    scope = {"type": "http", "path": "/", "headers": [(b"host", b"elsewhere")], "server": (address, 80)}
    asyncio.run(Gate(PlainTextResponse(), 1, "")(scope, receive, send))
    assert answers[1]["body"].decode() == f"this server answers at {url} only\n"
