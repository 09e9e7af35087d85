"""The server of the playground in a thread of the test."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from tools.playground.__main__ import parse_arguments, playground
from tools.playground.server import PlaygroundServer


@contextmanager
def serving(*arguments: str) -> Iterator[PlaygroundServer]:
    """The server at a port that is free."""
    with playground(parse_arguments([*arguments, "--no-browser"])) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()
