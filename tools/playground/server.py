"""The server of the playground: the page, its samples and translations, for this machine alone."""

import io
import re
import secrets
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import CancelledError
from contextlib import contextmanager
from hashlib import sha256
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, urlsplit

from data.conditioning import Conditioning
from tools.playground import wire
from tools.playground.description import Description
from tools.playground.page import build_page
from tools.playground.samples import Samples
from tools.playground.socket_reader import SocketReader
from tools.playground.stored_pictures import StoredPictures
from tools.playground.translator import Translator
from utils.cli import is_out_of_memory
from utils.errors import UserError
from utils.log import logger

ADDRESS = "127.0.0.1"
HOST = re.compile(r"(127\.0\.0\.1|localhost)(:\d{1,5})?", re.ASCII | re.IGNORECASE)
MAX_DRAINED_BYTES = 2**28  # of one that is refused: a client that still sends would not read the answer
MAX_SEED = 2**31 - 1
BINARY = "application/octet-stream"
TEXT = "text/plain; charset=utf-8"
SILENCE_S = 60.0  # of a connection, after which it is closed
REQUEST_S = 300.0  # in which a request must have come, and then its answer be taken: enough for ssh to a slow place
PATIENCE_S = 2.0  # with the answers that are on their way when the server stops


class RefusedError(Exception):
    """A request that is not answered; `text` says why, in one line."""

    def __init__(self, status: HTTPStatus, text: str) -> None:
        super().__init__(text)
        self.status, self.text = status, text


class PlaygroundServer(ThreadingHTTPServer):
    """Serves one page and translates its pictures. It reads no path from a request, and so no file by one.

    port: 0 for any that is free.

    Raises:
        OSError: the port is in use.
    """

    daemon_threads = True
    request_queue_size = 128  # connections that wait; of more than the usual 5, the rest are reset

    def __init__(
        self,
        port: int,
        description: Description,
        *,
        conditioning: Conditioning,
        ignore_id: int | None,
        samples: Samples,
        translator: Translator,
        stored: StoredPictures | None = None,
    ) -> None:
        self.model = sha256(description.to_json().encode()).hexdigest()[:16]
        nonce = secrets.token_urlsafe(16)
        self.page = build_page(description, "server_engine", nonce=nonce).encode()
        self.policy = (
            f"default-src 'none'; script-src 'nonce-{nonce}' data:; style-src 'nonce-{nonce}'; img-src 'self' data: "
            "blob:; media-src blob:; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
        )
        self.conditioning = conditioning
        self.ignore_id = ignore_id
        self.samples = samples
        self.translator = translator
        self.stored = stored
        self._answering = 0
        self._answered = threading.Condition()
        super().__init__((ADDRESS, port), Handler)

    @contextmanager
    def answering(self) -> Iterator[None]:
        """Count an answer that is on its way."""
        with self._answered:
            self._answering += 1
        try:
            yield
        finally:
            with self._answered:
                self._answering -= 1
                self._answered.notify_all()

    def stop(self) -> None:
        """Stop listening and translating; the answers that are on their way are waited for."""
        if self.translator.is_busy:
            logger.info("stopping after this translation; Ctrl-C again stops at once")
        self.server_close()
        self.translator.close()
        with self._answered:
            self._answered.wait_for(lambda: self._answering == 0, PATIENCE_S)

    @property
    def url(self) -> str:
        """The address of the page."""
        return f"http://{ADDRESS}:{self.server_port}/"


class Handler(BaseHTTPRequestHandler):
    """Answers the requests of one connection."""

    server: PlaygroundServer
    protocol_version = "HTTP/1.1"
    server_version = "pairgan"
    sys_version = ""
    disable_nagle_algorithm = True  # or the end of an answer waits for the client's acknowledgement

    def setup(self) -> None:
        """Read by a deadline; the standard library's own time limit begins again at each byte."""
        super().setup()
        self.rfile.close()
        self._reader = SocketReader(self.connection, SILENCE_S)
        self.rfile = io.BufferedReader(self._reader, 2**16)

    def handle_one_request(self) -> None:
        """Answer a request, which must come in time."""
        self._reader.allow(REQUEST_S)
        super().handle_one_request()

    def do_GET(self) -> None:
        """Answer with the page or a sample."""
        with self.server.answering():
            self._answer_or_refuse(self._get)

    def do_POST(self) -> None:
        """Answer with a translation."""
        with self.server.answering():
            self._answer_or_refuse(self._post)

    def _get(self) -> None:
        path = urlsplit(self.path).path
        if path == "/":
            self._answer(HTTPStatus.OK, "text/html; charset=utf-8", self.server.page)
            return
        number = re.fullmatch(r"/samples/(\d{1,6})", path, re.ASCII)
        if number is None:
            raise RefusedError(HTTPStatus.NOT_FOUND, "there is nothing at this address")
        sample = (self.server.stored.show if self.server.stored else self.server.samples.read)(int(number[1]))
        height, width = sample.source.shape[-2:]
        packed = wire.pack(sample, self.server.conditioning, self.server.ignore_id)
        self._answer(HTTPStatus.OK, BINARY, packed, {"X-Width": str(width), "X-Height": str(height)})

    def _post(self) -> None:
        server = self.server
        n_bytes, width, height, seed = self._announced()
        body = self.rfile.read(n_bytes)
        sample = wire.unpack(body, width, height, server.conditioning, server.ignore_id)
        if server.stored:
            sample = server.stored.find(sample)
        translated = server.translator.translate(sample, seed)
        self._answer(HTTPStatus.OK, BINARY, translated.permute(1, 2, 0).numpy().tobytes())

    def _announced(self) -> tuple[int, int, int, int]:
        """Return the bytes, width, height and seed of a picture to come; refuse one that cannot be translated.

        Raises:
            DataError: a picture of this size has another number of bytes.
        """
        n_bytes = self._length()
        address = urlsplit(self.path)
        if address.path != "/translate":
            raise RefusedError(HTTPStatus.NOT_FOUND, "there is nothing at this address")
        if self.headers.get_content_type() != BINARY:  # pages of other origins cannot send it without being asked
            raise RefusedError(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, f"expected a picture as {BINARY}")
        query = parse_qs(address.query)
        width, height, seed = (_number(query, name) for name in ("width", "height", "seed"))
        wire.check_size(n_bytes, width, height, self.server.conditioning)
        return n_bytes, width, height, seed

    def _answer_or_refuse(self, answer: Callable[[], None]) -> None:
        """Answer a request of this origin; every error becomes an answer of one line."""
        try:
            self._check_origin()
            answer()
        except RefusedError as refused:
            self._refuse(refused.status, refused.text)
        except UserError as error:
            self._refuse(HTTPStatus.BAD_REQUEST, str(error))
        except CancelledError:
            self._refuse(
                HTTPStatus.SERVICE_UNAVAILABLE, "The playground was stopped. Start it again: python -m tools.playground"
            )
        except (ConnectionError, TimeoutError):  # the page was closed
            self.close_connection = True
        except Exception as error:  # noqa: BLE001 - reported; the server must outlive it
            if is_out_of_memory(error):
                self._refuse(HTTPStatus.INSUFFICIENT_STORAGE, "out of memory: draw on a smaller picture, or use --tile")
                return
            logger.exception("a request failed: %s", self.requestline)
            self._refuse(HTTPStatus.INTERNAL_SERVER_ERROR, "the translation failed; the terminal shows why")

    def _check_origin(self) -> None:
        """Refuse other names of this machine, by which a foreign page could reach it, and other pages."""
        hosts = self.headers.get_all("Host", [])
        if len(hosts) != 1 or not HOST.fullmatch(hosts[0]):
            raise RefusedError(HTTPStatus.MISDIRECTED_REQUEST, f"this server answers at {self.server.url} only")
        origin = self.headers.get("Origin")
        is_link = self.path == "/" and self.headers.get("Sec-Fetch-Mode") == "navigate"
        is_foreign = self.headers.get("Sec-Fetch-Site", "none") not in ("same-origin", "none") and not is_link
        if is_foreign or (origin is not None and origin != f"http://{hosts[0]}"):
            raise RefusedError(HTTPStatus.FORBIDDEN, "another page may not use this server")

    def _length(self) -> int:
        """Return the length of the request's body; refuse one that is too large."""
        texts = self.headers.get_all("Content-Length", [])
        text = texts[0] if len(texts) == 1 and "Transfer-Encoding" not in self.headers else ""
        if not re.fullmatch(r"\d{1,18}", text, re.ASCII):
            raise RefusedError(HTTPStatus.LENGTH_REQUIRED, "expected the length of the body, by Content-Length alone")
        if int(text) > wire.MAX_BYTES:
            raise RefusedError(
                HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
                f"{int(text):,} bytes, at most {wire.MAX_BYTES:,}: use a smaller picture",
            )
        return int(text)

    def handle_expect_100(self) -> bool:
        """Refuse before the body is sent, where the client asks first."""
        may_send = []
        self._answer_or_refuse(lambda: may_send.append(self._announced()))
        return bool(may_send) and super().handle_expect_100()

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:
        """Answer a malformed request in one line."""
        self._refuse(HTTPStatus(code), message or HTTPStatus(code).phrase)

    def _refuse(self, status: HTTPStatus, text: str) -> None:
        """Answer with an error, and close the connection, whose request may not have been read."""
        self.close_connection = True
        try:
            self._answer(status, TEXT, f"{text}\n".encode(errors="backslashreplace"), {"Connection": "close"})
            if self._has_body:
                self._drain()
        except OSError:  # the client is gone
            return

    @property
    def _has_body(self) -> bool:
        headers = getattr(self, "headers", None)  # none where the request's first line is malformed
        return headers is not None and ("Content-Length" in headers or "Transfer-Encoding" in headers)

    def _drain(self) -> None:
        """Read what a refused client still sends; otherwise it would see a broken connection instead of the answer."""
        self._reader.silence_s = 1
        left = MAX_DRAINED_BYTES
        while left > 0 and (data := self.rfile.read1(2**16)):
            left -= len(data)

    def _answer(
        self, status: HTTPStatus, content_type: str, body: bytes, headers: dict[str, str] | None = None
    ) -> None:
        self.send_response(status)
        own = {
            "Content-Type": content_type,
            "Content-Length": str(len(body)),
            "Content-Security-Policy": self.server.policy,
            "Cross-Origin-Resource-Policy": "same-origin",
            "X-Content-Type-Options": "nosniff",
            "Referrer-Policy": "no-referrer",
            "Cache-Control": "no-store",
            "X-Model": self.server.model,
        }
        for name, value in {**own, **(headers or {})}.items():
            self.send_header(name, value)
        self.connection.settimeout(REQUEST_S)  # of each of the two sends as a whole
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Print nothing for a request."""


def _number(query: dict[str, list[str]], name: str) -> int:
    """Return a number of the address; refuse another text."""
    (text, *_) = query.get(name, [""])
    if not re.fullmatch(r"\d{1,10}", text, re.ASCII) or int(text) > MAX_SEED:
        raise RefusedError(HTTPStatus.BAD_REQUEST, f"{name}={text!r}: expected a whole number")
    return int(text)
