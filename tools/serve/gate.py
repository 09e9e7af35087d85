"""Access control and request limits of the service. Every error becomes a response of one line."""

import asyncio
import errno
import ipaddress
import os
import re
import secrets
from collections.abc import Coroutine, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from http import HTTPStatus
from pathlib import Path
from typing import Any, TypeVar

from starlette.datastructures import MutableHeaders
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from data.batch import LoadingError
from data.files.stored_image import TooLargeError
from tools.serve.command_line import MAX_SEED, TOKEN
from utils.cli import is_out_of_memory
from utils.errors import ConfigError, UserError
from utils.log import logger
from utils.machine import memory_bytes
from utils.text import printable

LINGER_S = 2.0  # maximum time to read a refused body. Clients that cannot send all could miss the response.
SOON = {"Retry-After": "1"}
_HEADERS = {"Cache-Control": "no-store", "X-Content-Type-Options": "nosniff"}
_OPEN_PATH = "/health"  # needs no token
_MOST_BODIES = 64  # all current requests together may have 64 times max_bytes, but at most a quarter of the memory
_LEAST_TOKEN = 16  # characters
_FULL = (errno.ENOSPC, errno.EDQUOT)
_LOCAL_NAME = re.compile(r"(127(\.\d{1,3}){3}|localhost|\[::1\])(:\d{1,5})?", re.ASCII | re.IGNORECASE)
_Result = TypeVar("_Result")


@dataclass
class Gate:
    """ASGI middleware that refuses unauthorized or too large requests, and answers each error with one line.

    app: Application that gets the accepted requests. It can refuse a request with an HTTPException.
    max_bytes: Maximum size of a request body in bytes.
    remedy: Advice for the user if memory runs out.
    token: Token that clients must send. None: refuse requests from other web sites, and requests whose Host header
        does not name this machine. This prevents DNS rebinding.
    headers: Additional headers of every response.
    """

    app: ASGIApp
    max_bytes: int
    remedy: str
    token: str | None = None
    headers: Mapping[str, str] = field(default_factory=dict)
    _n_held: int = field(default=0, init=False)  # bytes of all current requests and responses

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle an ASGI request."""
        request, n_bytes, status, is_read = Request(scope), 0, 0, False

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

        async def send_and_wait(message: Message) -> None:
            """Send a message. Before the response ends, read the rest of the request body."""
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                MutableHeaders(scope=message).update(_HEADERS | dict(self.headers))
            if status < HTTPStatus.BAD_REQUEST:  # do not count refusals
                hold(len(message.get("body", b"")))
            await send({**message, "more_body": True})
            if message["type"] == "http.response.body" and not message.get("more_body"):
                await _take_rest(receive, is_read)
                await send({"type": "http.response.body"})

        try:
            self._check_access(request)
            self._check_length(int(request.headers.get("content-length", 0)))
            await self.app({**scope, "app": self}, receive_up_to_most, send_and_wait)
        except ClientDisconnect:
            return
        except (Exception, asyncio.CancelledError) as error:
            if status:
                raise
            self._n_held, n_bytes = self._n_held - n_bytes, 0  # the refused request no longer counts
            refusal = self._refusal(error, request)
            headers = {"Connection": "close", **(refusal.headers or {})}
            body = f"{printable(' '.join(refusal.detail.split()))}\n"
            await PlainTextResponse(body, refusal.status_code, headers)(scope, receive, send_and_wait)
        finally:
            self._n_held -= n_bytes

    def _check_access(self, request: Request) -> None:
        """Refuse clients without the token. If no token is set, refuse other host names and other web sites."""
        if request.scope["path"] == _OPEN_PATH:
            return
        if self.token is not None:
            scheme, _, given = request.headers.get("authorization", "").partition(" ")
            if scheme.lower() != "bearer" or not secrets.compare_digest(given.encode(), self.token.encode()):
                text = "the token is missing or wrong. Send the header Authorization: Bearer TOKEN."
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
            raise HTTPException(HTTPStatus.FORBIDDEN, "web pages of other sites cannot use this server")

    def _check_length(self, n_bytes: int) -> None:
        if n_bytes > self.max_bytes:
            problem = f"the request has {n_bytes:,} bytes, but the limit is {self.max_bytes:,}. Use a smaller image."
            raise HTTPException(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, problem)

    def _check_room(self) -> None:
        if self._n_held > max(self.max_bytes, min(_MOST_BODIES * self.max_bytes, memory_bytes() // 4)):
            problem = f"current requests already have {self._n_held:,} bytes. Try again later."
            raise HTTPException(HTTPStatus.SERVICE_UNAVAILABLE, problem, SOON)

    def _refusal(self, error: Exception | asyncio.CancelledError, request: Request) -> HTTPException:
        """Return the response to an error."""
        if isinstance(error, HTTPException):
            allowed = (error.headers or {}).get("Allow")
            if allowed or error.status_code == HTTPStatus.NOT_FOUND:  # the router gives no reason
                problem = f"use {allowed}" if allowed else "there is no such address"
                error.detail = f"{request.method} {request.url.path}: {problem}"
            return error
        if isinstance(error, asyncio.CancelledError):
            return HTTPException(HTTPStatus.SERVICE_UNAVAILABLE, "the server is stopping. Try again later.")
        if isinstance(error, LoadingError) or is_out_of_memory(error):
            return HTTPException(HTTPStatus.INSUFFICIENT_STORAGE, f"out of memory. {self.remedy}")
        if isinstance(error, UserError):
            status = HTTPStatus.REQUEST_ENTITY_TOO_LARGE if isinstance(error, TooLargeError) else HTTPStatus.BAD_REQUEST
            return HTTPException(status, str(error))
        if isinstance(error, OSError) and error.errno in _FULL:
            logger.error("cannot write temporary files: %s. Free disk space, or set TMPDIR=FOLDER.", error.strerror)
            return HTTPException(HTTPStatus.INSUFFICIENT_STORAGE, "the disk of the server is full. Try again later.")
        logger.error("a request failed: %s %s", request.method, request.scope["path"], exc_info=error)
        return HTTPException(HTTPStatus.INTERNAL_SERVER_ERROR, "the translation failed. See the terminal.")


async def _take_rest(receive: Receive, is_read: bool) -> None:
    """Read the rest of a request body for up to LINGER_S, unless `is_read`."""
    with suppress(TimeoutError):
        async with asyncio.timeout(LINGER_S):
            while not is_read:
                is_read = not (await receive()).get("more_body", False)


def read_token(file: Path | None, host: str) -> str | None:
    """Return the token from a file or the environment variable TOKEN, or None if no token is set.

    Raises:
        ConfigError: The token is invalid, or it is not set although other machines can reach `host`.
    """
    origin = str(file) if file else TOKEN
    token = file.read_text(encoding="utf-8", errors="replace").strip() if file else os.environ.get(TOKEN)
    if token is None:
        with suppress(ValueError):
            host = "localhost" if ipaddress.ip_address(host).is_loopback else host
        if host != "localhost":
            raise ConfigError(f"--host {host}: everybody could use the server. Add --token-file FILE, or set {TOKEN}.")
        return None
    if len(token) < _LEAST_TOKEN or not token.isascii() or not token.isprintable() or " " in token:
        expected = f"expected a word of {_LEAST_TOKEN} or more ASCII characters"
        raise ConfigError(f"{origin}: {expected}. Make one: python -c 'import secrets; print(secrets.token_urlsafe())'")
    return token


def number(request: Request, name: str, default: str = "") -> int:
    """Return a query parameter as a whole number up to MAX_SEED. Refuse any other text."""
    text = request.query_params.get(name, default)
    if not re.fullmatch(r"\d{1,10}", text, re.ASCII) or int(text) > MAX_SEED:
        raise HTTPException(HTTPStatus.BAD_REQUEST, f"{name}={text!r}: expected a whole number up to {MAX_SEED}")
    return int(text)


async def unless_gone(request: Request, work: Coroutine[Any, Any, _Result]) -> _Result:
    """Return the result of a coroutine. Cancel the coroutine if the client closes the connection.

    Read the body of the request before you call this function.

    Raises:
        ClientDisconnect: The client has closed the connection.
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
        del result  # a traceback keeps this frame, and thus the request's files, in memory
