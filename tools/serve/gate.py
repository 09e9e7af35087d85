"""Who may ask a server, and how much; every error becomes an answer of one line."""

import asyncio
import errno
import re
import secrets
import time
from collections.abc import Callable, Coroutine, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any, TypeVar

from starlette.datastructures import MutableHeaders
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from data.batch import LoadingError
from data.files.size_guard import TooLargeError
from tools.serve.command_line import MAX_SEED
from utils.cli import is_out_of_memory
from utils.errors import UserError
from utils.log import logger
from utils.machine import memory_bytes
from utils.text import printable

LINGER_S = 2.0  # with a refused body: a client that still sends may not see the answer of a closed connection
STOPPING = "the server stops: try again later"
SOON = {"Retry-After": "1"}
_MOST_BODIES = 64  # of the largest size, in the memory at once, unless they take a quarter of the memory
_PIECE = 2**18  # bytes of an answer that are given to the connection at once
_FULL = (errno.ENOSPC, errno.EDQUOT)
_LOCAL_NAME = re.compile(r"(127(\.\d{1,3}){3}|localhost|\[::1\])(:\d{1,5})?", re.ASCII | re.IGNORECASE)
_Result = TypeVar("_Result")


@dataclass
class Gate:
    """Lets requests through to an application if they may ask, and answers each error with one line.

    Refusals are HTTPExceptions, whose detail says why.

    max_bytes: of the body of a request.
    remedy: where the memory does not suffice.
    token: of those who may ask. None: the server is for this machine, and answers to its names alone, by one of which
        no foreign page can reach it.
    open_paths: which anyone may ask for.
    headers: of every answer.
    observe: is called with path, status and seconds of each answer.
    index: the path that shows which others there are.
    """

    app: ASGIApp
    max_bytes: int
    remedy: str
    token: str | None = None
    open_paths: tuple[str, ...] = ()
    headers: Mapping[str, str] = field(default_factory=dict)
    observe: Callable[[str, int, float], None] = lambda *_: None
    index: str = "/"
    _n_held: int = field(default=0, init=False)  # bytes of all requests and answers

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, as servers of ASGI call it."""
        request, began, n_bytes, status, is_read = Request(scope), time.monotonic(), 0, 0, False

        def hold(n_new: int) -> None:
            nonlocal n_bytes
            n_bytes, self._n_held = n_bytes + n_new, self._n_held + n_new

        async def receive_up_to_most() -> Message:
            nonlocal is_read
            message = await receive()
            is_read = not message.get("more_body", False)
            hold(len(message.get("body", b"")))
            self._check_length(n_bytes)
            self._check_room()
            return message

        async def send_with_headers(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                MutableHeaders(scope=message).update(self.headers)
            hold(len(message.get("body", b"")) // _PIECE * _PIECE)
            await _send_in_pieces(message, send)

        async def send_and_linger(message: Message) -> None:
            await send_with_headers({**message, "more_body": True})
            if message["type"] == "http.response.body":
                await _take_rest(receive, is_read)
                await send({"type": "http.response.body"})

        try:
            self._check_asker(request)
            self._check_encoding(request)
            self._check_length(int(request.headers.get("content-length", 0)))
            await self.app({**scope, "app": self}, receive_up_to_most, send_with_headers)
        except ClientDisconnect:
            return
        except (Exception, asyncio.CancelledError) as error:
            if status:
                raise
            self._n_held, n_bytes = self._n_held - n_bytes, 0  # others take its room while the refusal is sent
            refusal = self._refusal(error, request)
            headers = {"Connection": "close", **(refusal.headers or {})}
            body = f"{printable(' '.join(refusal.detail.split()))}\n"
            await PlainTextResponse(body, refusal.status_code, headers)(scope, receive, send_and_linger)
        finally:
            self._n_held -= n_bytes
            self.observe(request.scope["path"], status, time.monotonic() - began)

    def _check_encoding(self, request: Request) -> None:
        encoding = request.headers.get("content-encoding", "identity")
        if encoding.lower() != "identity":
            problem = f"Content-Encoding: {encoding}: send the file uncompressed; image formats compress already"
            raise HTTPException(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, problem)

    def _check_length(self, n_bytes: int) -> None:
        if n_bytes > self.max_bytes:
            problem = f"{n_bytes:,} bytes, at most {self.max_bytes:,}: use a smaller picture"
            raise HTTPException(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, problem)

    def _check_room(self) -> None:
        if self._n_held > max(self.max_bytes, min(_MOST_BODIES * self.max_bytes, memory_bytes() // 4)):
            problem = f"requests of {self._n_held:,} bytes are under way: try again later"
            raise HTTPException(HTTPStatus.SERVICE_UNAVAILABLE, problem, SOON)

    def _check_asker(self, request: Request) -> None:
        """Refuse who has no token, or without one other names of this machine, and other pages."""
        if request.scope["path"] in self.open_paths:
            return
        if self.token is not None:
            scheme, _, given = request.headers.get("authorization", "").partition(" ")
            if scheme.lower() != "bearer" or not secrets.compare_digest(given.encode(), self.token.encode()):
                text = "this server needs its token: Authorization: Bearer TOKEN"
                raise HTTPException(HTTPStatus.UNAUTHORIZED, text, {"WWW-Authenticate": "Bearer"})
            return
        host, origin = request.headers.get("host", ""), request.headers.get("origin")
        if not _LOCAL_NAME.fullmatch(host):
            address, port = request.scope["server"]
            text = f"this server answers at http://{f'[{address}]' if ':' in address else address}:{port}/ only"
            raise HTTPException(HTTPStatus.MISDIRECTED_REQUEST, text)
        is_link = request.scope["path"] == "/" and request.headers.get("sec-fetch-mode") == "navigate"
        is_foreign = request.headers.get("sec-fetch-site", "none") not in ("same-origin", "none") and not is_link
        if is_foreign or (origin is not None and origin != f"http://{host}"):
            raise HTTPException(HTTPStatus.FORBIDDEN, "another page may not use this server")

    def _refusal(self, error: Exception | asyncio.CancelledError, request: Request) -> HTTPException:
        """Return the answer to an error."""
        if isinstance(error, HTTPException):
            allowed = (error.headers or {}).get("Allow")
            if allowed or error.status_code == HTTPStatus.NOT_FOUND:  # of the router, which does not say more
                problem = f"it takes {allowed}" if allowed else "there is no such address"
                error.detail = f"{request.method} {request.url.path}: {problem}; see GET {self.index}"
            return error
        if isinstance(error, UserError) and not isinstance(error, LoadingError):
            status = HTTPStatus.REQUEST_ENTITY_TOO_LARGE if isinstance(error, TooLargeError) else HTTPStatus.BAD_REQUEST
            return HTTPException(status, str(error))
        if isinstance(error, asyncio.CancelledError):
            return HTTPException(HTTPStatus.SERVICE_UNAVAILABLE, STOPPING)
        if isinstance(error, LoadingError) or is_out_of_memory(error):
            return HTTPException(HTTPStatus.INSUFFICIENT_STORAGE, f"out of memory: {self.remedy}")
        if isinstance(error, OSError) and error.errno in _FULL:
            logger.error("temporary files: %s. Free space there, or set TMPDIR=FOLDER.", error.strerror)
            return HTTPException(HTTPStatus.INSUFFICIENT_STORAGE, "the disk of the server is full: try again later")
        logger.error("a request failed: %s %s", request.method, request.scope["path"], exc_info=error)
        return HTTPException(HTTPStatus.INTERNAL_SERVER_ERROR, "the translation failed; the terminal shows why")


async def _take_rest(receive: Receive, is_read: bool) -> None:
    """Receive the rest of a body, unless it `is_read`, for up to LINGER_S."""
    with suppress(TimeoutError):
        async with asyncio.timeout(LINGER_S):
            while not is_read:
                is_read = not (await receive()).get("more_body", False)


async def _send_in_pieces(message: Message, send: Send) -> None:
    """Send a message, and return when the client has taken all but the last piece of its body."""
    body = message.get("body", b"")
    for start in range(0, len(body) - _PIECE, _PIECE):
        await send({**message, "body": body[start : start + _PIECE], "more_body": True})
    last = max(0, -(-len(body) // _PIECE) - 1) * _PIECE
    await send({**message, "body": body[last:]} if last else message)


def number(request: Request, name: str, default: str = "") -> int:
    """Return a number of the address; refuse another text."""
    text = request.query_params.get(name, default)
    if not re.fullmatch(r"\d{1,10}", text, re.ASCII) or int(text) > MAX_SEED:
        raise HTTPException(HTTPStatus.BAD_REQUEST, f"{name}={text!r}: expected a whole number up to {MAX_SEED}")
    return int(text)


async def unless_gone(request: Request, work: Coroutine[Any, Any, _Result]) -> _Result:
    """Return the result of some work, which is cancelled when the client goes.

    The body of the request must have been read.

    Raises:
        ClientDisconnect: the client is gone.
    """

    async def wait_until_gone() -> None:
        while (await request.receive())["type"] != "http.disconnect":
            pass

    result, gone = asyncio.create_task(work), asyncio.create_task(wait_until_gone())
    try:
        await asyncio.wait((result, gone), return_when=asyncio.FIRST_COMPLETED)
        if not result.done():
            raise ClientDisconnect
        return result.result()
    finally:
        gone.cancel()
        result.cancel()
        del result  # or its error, whose traceback has this frame, would keep the files of the request
