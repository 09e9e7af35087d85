"""The HTTP server of the service. A signal stops it."""

import errno
import logging
import os
import signal
import socket
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from types import FrameType
from typing import Any

import h11
import uvicorn
from starlette.types import ASGIApp
from uvicorn.protocols.http.h11_impl import H11Protocol

from utils.errors import ConfigError
from utils.log import logger
from utils.signals import INTERRUPTED, available, handling

SILENCE_S = 60.0  # timeout of an inactive connection, in seconds
BACKLOG = 128  # maximum number of connections that wait to be accepted
_CONNECTIONS = 512  # further connections get status 503


class _Connection(H11Protocol):
    """An HTTP connection with a timeout for slow clients.

    The server closes the connection if the client sends and receives nothing for SILENCE_S, or if the headers of a
    request take longer than 2 * SILENCE_S.
    """

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        self._moved: Any = None
        self._head: Any = None
        self._watch()

    def connection_lost(self, exc: Exception | None) -> None:
        self._next_watch.cancel()  # otherwise the timer keeps the last request in memory
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        self._moved = None
        super().data_received(data)

    def _watch(self) -> None:
        waits_for = (self.conn.their_state in (h11.IDLE, h11.SEND_BODY), self.transport.get_write_buffer_size())
        is_in_head = self.conn.their_state is h11.IDLE and bool(self.conn.trailing_data[0])
        head = (self.cycle,) if is_in_head else None  # self.cycle differs for each request
        if (any(waits_for) and waits_for == self._moved) or (head and head == self._head):
            self.transport.abort()
        self._moved, self._head = waits_for, head
        self._next_watch = self.loop.call_later(SILENCE_S, self._watch)


class WebServer(uvicorn.Server):
    """A server that listens immediately, and answers requests when `run` is called.

    ports: Ports to try in this order. 0 means any free port.
    drain_s: Time to finish current requests after a signal, in seconds.

    Raises:
        ConfigError: No port can be used.
    """

    def __init__(self, app: ASGIApp, host: str, ports: Sequence[int], drain_s: int) -> None:
        self._drain_s = drain_s
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        for port in ports:
            try:
                self._socket = socket.create_server((host, port), family=family, backlog=BACKLOG)
                break
            except OSError as error:
                if port != ports[-1]:
                    continue
                option = f"--port {port}" if error.errno in (errno.EADDRINUSE, errno.EACCES) else f"--host {host}"
                reason = str(error.strerror).partition(" (")[0]  # remove the address that Python adds
                raise ConfigError(f"{option}: {reason}. Choose another value.") from error
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)  # else responses can wait 40 ms for an ACK
        self.port: int = self._socket.getsockname()[1]
        self.url = f"http://{f'[{host}]' if ':' in host else host}:{self.port}/"
        config = uvicorn.Config(
            app,
            http=_Connection,
            ws="none",
            lifespan="off",
            log_config=None,
            log_level="critical",
            access_log=False,
            proxy_headers=False,
            server_header=False,
            backlog=BACKLOG,
            limit_concurrency=_CONNECTIONS,
            timeout_keep_alive=int(SILENCE_S),
            timeout_graceful_shutdown=drain_s,
        )
        super().__init__(config)

    def run(self, sockets: list[socket.socket] | None = None) -> None:
        """Answer waiting and new requests until a signal arrives."""
        super().run(sockets or [self._socket])

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Close the socket. Finish current requests for up to `drain_s`, then cancel them."""
        logger.info("stopping     waiting up to %d s for current requests; Ctrl-C again stops at once", self._drain_s)
        await super().shutdown(sockets)

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Stop after the first signal. After the second signal, do not wait for requests."""
        if self.should_exit:
            raise KeyboardInterrupt
        self.should_exit = True

    def close(self) -> None:
        """Close the socket, even if the server never ran."""
        self._socket.close()


@contextmanager
def until_stopped(opening: AbstractContextManager[WebServer]) -> Iterator[WebServer]:
    """Open a server that stops at Ctrl-C, SIGTERM or SIGHUP (but not at SIGHUP under nohup)."""
    try:
        with opening as server, handling(server.handle_exit, available("SIGINT", "SIGTERM", "SIGHUP")):
            yield server
    except KeyboardInterrupt:
        sys.stderr.write(INTERRUPTED)
        sys.stderr.flush()
        os._exit(128 + signal.SIGINT)  # sys.exit would wait for the translating thread
    logger.info("stopped")
    if any(thread is not threading.main_thread() and not thread.daemon for thread in threading.enumerate()):
        logging.shutdown()
        os._exit(0)  # sys.exit would wait for a translation that takes longer than drain_s
