"""A server that a signal stops."""

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

SILENCE_S = 60.0  # after which a connection is closed
BACKLOG = 128  # connections that wait to be accepted
_CONNECTIONS = 512  # each further one gets 503


class _Connection(H11Protocol):
    """An HTTP connection with a timeout for slow clients.

    It is closed if the client neither sends nor takes bytes for SILENCE_S, or if the head of a request takes twice as
    long.
    """

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        self._moved: Any = None
        self._head: Any = None
        self._watch()

    def connection_lost(self, exc: Exception | None) -> None:
        self._next_watch.cancel()  # otherwise it holds the last request and its answer
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        self._moved = None
        super().data_received(data)

    def _watch(self) -> None:
        waits_for = (self.conn.their_state in (h11.IDLE, h11.SEND_BODY), self.transport.get_write_buffer_size())
        is_in_head = self.conn.their_state is h11.IDLE and bool(self.conn.trailing_data[0])
        head = (self.cycle,) if is_in_head else None  # identified by the request before it
        if (any(waits_for) and waits_for == self._moved) or (head and head == self._head):
            self.transport.abort()
        self._moved, self._head = waits_for, head
        self._next_watch = self.loop.call_later(SILENCE_S, self._watch)


class WebServer(uvicorn.Server):
    """Listens at once, and answers when it runs, until a signal stops it.

    ports: Ports to try, in this order. 0 is any free port.
    drain_s: Time after the signal to answer requests that have begun, in seconds.

    Raises:
        ConfigError: The last port is in use or may not be used.
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
                reason = str(error.strerror).partition(" (")[0]  # Python adds the address
                raise ConfigError(f"{option}: {reason}. Choose another.") from error
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)  # else answers can wait 40 ms for an ACK
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
        """Answer requests, including those that wait already, until a signal comes."""
        super().run(sockets or [self._socket])

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Close the socket. Answer the requests that have begun for up to `drain_s`, then refuse them."""
        logger.info("stopping     after the requests under way, within %d s; Ctrl-C again stops at once", self._drain_s)
        await super().shutdown(sockets)

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Stop at the first signal. At the second, do not wait for requests."""
        if self.should_exit:
            raise KeyboardInterrupt
        self.should_exit = True

    def close(self) -> None:
        """Close the socket, also if the server has not run."""
        self._socket.close()


@contextmanager
def until_stopped(opening: AbstractContextManager[WebServer]) -> Iterator[WebServer]:
    """Open a server, and let Ctrl-C, SIGTERM and SIGHUP stop it. nohup makes it ignore SIGHUP."""
    try:
        with opening as server, handling(server.handle_exit, available("SIGINT", "SIGTERM", "SIGHUP")):
            yield server
    except KeyboardInterrupt:
        sys.stderr.write(INTERRUPTED)
        sys.stderr.flush()
        os._exit(128 + signal.SIGINT)  # Python itself would wait for the thread that translates
    logger.info("stopped")
    if any(thread is not threading.main_thread() and not thread.daemon for thread in threading.enumerate()):
        logging.shutdown()
        os._exit(0)  # Python would wait for a translation that takes longer than the drain
