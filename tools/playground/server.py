"""The server of the playground: the page, its samples and translations, for this machine alone."""

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
from tools.playground.translator import Translator
from utils.cli import is_out_of_memory
from utils.errors import UserError
from utils.log import logger

ADDRESS = "127.0.0.1"
HOST = re.compile(r"(127\.0\.0\.1|localhost)(:\d{1,5})?", re.ASCII | re.IGNORECASE)
MAX_SEED = 2**31 - 1
BINARY = "application/octet-stream"
TEXT = "text/plain; charset=utf-8"
SILENCE_S = 60.0  # of a connection, after which it is closed
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
    timeout = SILENCE_S
    disable_nagle_algorithm = True  # or the end of an answer waits for the client's acknowledgement

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
        sample = self.server.samples.show(int(number[1]))
        height, width = sample.source.shape[-2:]
        packed = wire.pack(sample, self.server.conditioning, self.server.ignore_id)
        self._answer(HTTPStatus.OK, BINARY, packed, {"X-Width": str(width), "X-Height": str(height)})

    def _post(self) -> None:
        server, address = self.server, urlsplit(self.path)
        body = self.rfile.read(self._length())
        if address.path != "/translate":
            raise RefusedError(HTTPStatus.NOT_FOUND, "there is nothing at this address")
        if self.headers.get_content_type() != BINARY:  # pages of other origins cannot send it without being asked
            raise RefusedError(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, f"expected a picture as {BINARY}")
        query = parse_qs(address.query)
        width, height, seed = (_number(query, name) for name in ("width", "height", "seed"))
        sample = wire.unpack(body, width, height, server.conditioning, server.ignore_id)
        translated = server.translator.translate(server.samples.source_of(sample), seed)
        self._answer(HTTPStatus.OK, BINARY, translated.permute(1, 2, 0).numpy().tobytes())

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

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:
        """Answer a malformed request in one line."""
        self._refuse(HTTPStatus(code), message or HTTPStatus(code).phrase)

    def _refuse(self, status: HTTPStatus, text: str) -> None:
        """Answer with an error, and close the connection, whose request may not have been read."""
        self.close_connection = True
        try:
            self._answer(status, TEXT, f"{text}\n".encode(errors="backslashreplace"), {"Connection": "close"})
        except OSError:  # the client is gone
            return

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
