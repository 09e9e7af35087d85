"""A server in a thread of its own, which a signal stops."""

import errno
import os
import signal
import socket
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from typing import Any

import h11
import uvicorn
from starlette.types import ASGIApp
from uvicorn.protocols.http.h11_impl import H11Protocol

from tools.serve.turns import Turns
from utils.errors import ConfigError
from utils.log import logger
from utils.signals import available

LOOPBACK = "127.0.0.1"
SILENCE_S = 60.0  # of a connection, after which it is closed
PATIENCE_S = 2  # with the answers that are on their way when a server stops
BACKLOG = 128  # connections that wait to be accepted
_CONNECTIONS = 512  # each further one gets 503


class _Connection(H11Protocol):
    """A connection that is closed where its client neither sends what it has begun nor takes what it has asked for."""

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        self._moved: Any = None
        self._watch()

    def connection_lost(self, exc: Exception | None) -> None:
        self._next_watch.cancel()  # which would hold the last request and its answer
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        self._moved = None
        super().data_received(data)

    def _watch(self) -> None:
        waits_for = (self.conn.their_state in (h11.IDLE, h11.SEND_BODY), self.transport.get_write_buffer_size())
        if any(waits_for) and waits_for == self._moved:
            self.transport.abort()
        self._moved = waits_for
        self._next_watch = self.loop.call_later(SILENCE_S, self._watch)


class WebServer:
    """Answers requests in a thread of its own; those that come before it starts wait.

    turns: of what the application computes.

    Raises:
        ConfigError: the port is in use, or may not be used.
    """

    def __init__(self, app: ASGIApp, turns: Turns, host: str, port: int) -> None:
        self._turns = turns
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        try:
            self._socket = socket.create_server((host, port), family=family, backlog=BACKLOG)
        except OSError as error:
            option = f"--port {port}" if error.errno in (errno.EADDRINUSE, errno.EACCES) else f"--host {host}"
            reason = str(error.strerror).partition(" (")[0]  # of Python's own words on the address
            raise ConfigError(f"{option}: {reason}. Choose another, or leave it out.") from error
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
            timeout_graceful_shutdown=PATIENCE_S,
        )
        self._server = uvicorn.Server(config)
        self._thread = threading.Thread(target=self._server.run, kwargs={"sockets": [self._socket]}, name="server")

    def start(self) -> None:
        """Begin to answer."""
        self._turns.start()
        self._thread.start()

    def wait(self) -> None:
        """Wait until the server stops, or a handler of signals raises."""
        while self._thread.is_alive():
            self._thread.join(0.2)

    def stop(self) -> None:
        """Refuse what waits and stop; what is computed is waited for, and answers on their way up to PATIENCE_S."""
        self._turns.stop()
        self._server.should_exit = True
        if self._thread.is_alive():
            self._thread.join()
        self._socket.close()


@contextmanager
def until_signal() -> Iterator[None]:
    """End the block without an error at Ctrl-C, SIGTERM, or SIGHUP unless nohup has it ignored.

    The handlers stay: a second signal interrupts what is done after the block.
    """
    for kind in available("SIGINT", "SIGTERM", "SIGHUP"):
        if kind.name != "SIGHUP" or signal.getsignal(kind) is not signal.SIG_IGN:
            signal.signal(kind, signal.default_int_handler)
    with suppress(KeyboardInterrupt):
        yield


def serve(opening: AbstractContextManager[WebServer], announce: Callable[[WebServer], None]) -> None:
    """Open a server and answer until a signal stops it; a second one does not wait for what is computed."""
    try:
        with opening as server, until_signal():
            server.start()
            announce(server)
            server.wait()
    except KeyboardInterrupt:
        sys.stderr.write("interrupted\n")
        sys.stderr.flush()
        os._exit(128 + signal.SIGINT)  # Python itself would wait for the thread that translates
    logger.info("stopped")
