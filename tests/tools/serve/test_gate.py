"""Refusals of the gate without a server."""

import asyncio

import pytest
from starlette.responses import PlainTextResponse
from starlette.types import Message

from tools.serve.gate import Gate


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
