"""Servers of files on the loopback address, for tests: of ranges of bytes, wrong ones where asked to, and of S3."""

import logging
import re
import threading
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import unquote

import pytest

from data import ranges


class RangeServer(ThreadingHTTPServer):
    """Serves the files below a folder by ranges of bytes.

    faults: what is wrong with the next answers, see `_Handler`; "" is a right answer. The last one stays.
    requests: (path, range, Authorization) of each request.
    """

    daemon_threads = True
    block_on_close = False

    def __init__(self, root: Path, port: int = 0) -> None:
        super().__init__(("127.0.0.1", port), _Handler)
        self.root = root
        self.faults = [""]
        self.requests: list[tuple[str, str, str]] = []
        self.closing = threading.Event()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"

    def next_fault(self) -> str:
        return self.faults.pop(0) if len(self.faults) > 1 else self.faults[0]


class _Handler(BaseHTTPRequestHandler):
    """Answers GET; a fault is a status, or one of those in `_send`."""

    server: RangeServer
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True  # an answer has two parts, and the second would wait 40 ms for word of the first

    def log_message(self, *_: object) -> None:
        pass

    def do_GET(self) -> None:
        asked = self.headers.get("Range", "")
        self.server.requests.append((self.path, asked, self.headers.get("Authorization", "")))
        file, fault = self.server.root / unquote(self.path).lstrip("/"), self.server.next_fault()
        found = re.fullmatch(r"bytes=(\d+)-(\d+)", asked)
        if not fault.isdecimal() and not file.is_file():
            fault = "404"
        if fault.isdecimal():
            self._send_head(int(fault), 0)
        elif fault.startswith("http://"):
            self._send_head(307, 0, {"Location": fault})
        elif found is None or fault == "whole":
            content = file.read_bytes()
            self._send_head(200, len(content))
            self.wfile.write(content)
        else:
            self._send(file.read_bytes(), int(found[1]), int(found[2]) + 1, fault)

    def _send(self, content: bytes, start: int, end: int, fault: str) -> None:
        shown = f"bytes {start}-{min(end, len(content)) - 1}/{len(content)}"
        if fault == "drop":
            self.close_connection = True
            return
        if fault == "shifted":
            shown = f"bytes {start + 1}-{end}/{len(content)}"
        if fault == "longer":
            end += 1
        if fault == "shorter":
            end -= 1
        part, headers = content[start:end], {"Content-Range": shown}
        if fault == "compressed":
            headers["Content-Encoding"] = "gzip"
        self._send_head(206, len(part), headers)
        if fault == "stall":
            self.wfile.write(part[:1])
            self.wfile.flush()
            self.server.closing.wait(10)
        if fault in ("truncated", "stall"):
            part, self.close_connection = part[:1], True
        self.wfile.write(part)

    def _send_head(self, status: int, n_bytes: int, headers: dict[str, str] | None = None) -> None:
        self.send_response(status)
        self.send_header("Content-Length", str(n_bytes))
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        self.end_headers()


@contextmanager
def range_server(root: Path, port: int = 0) -> Iterator[RangeServer]:
    """Serve a folder until the end of the block."""
    server = RangeServer(root, port)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.closing.set()
        server.shutdown()
        server.server_close()
        thread.join()


@contextmanager
def s3_server(root: Path, environment: pytest.MonkeyPatch) -> Iterator[str]:
    """Serve the folders below a folder as buckets of S3, by moto; yield its URL, which is that of s3:// then."""
    pytest.importorskip("s3fs")
    server = pytest.importorskip("moto.server").ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    logging.getLogger("werkzeug").setLevel(logging.ERROR)  # it logs each request
    server.start()
    url = "http://{}:{}".format(*server.get_host_and_port())
    for path in [*root.iterdir(), *(path for path in root.rglob("*") if path.is_file())]:
        place, content = f"{url}/{path.relative_to(root).as_posix()}", path.read_bytes() if path.is_file() else b""
        request = urllib.request.Request(place, content, {"Content-Type": "application/x-tar"}, method="PUT")
        urllib.request.urlopen(request).close()
    use_s3(url, environment)
    try:
        yield url
    finally:
        server.stop()


def use_s3(url: str, environment: pytest.MonkeyPatch) -> None:
    """Read s3:// from a server; its credentials are those that moto takes: any."""
    settings = {
        "ENDPOINT_URL": url,
        "ACCESS_KEY_ID": "me",
        "SECRET_ACCESS_KEY": "s3cret",
        "DEFAULT_REGION": "us-east-1",
    }
    for name, value in settings.items():
        environment.setenv(f"AWS_{name}", value)
    ranges.file_system.cache_clear()  # it has connections to another server
