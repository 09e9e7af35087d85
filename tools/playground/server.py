"""The server of the playground: the page, its samples and translations, for this machine alone."""

import re
import secrets
import threading
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import CancelledError, Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from hashlib import sha256
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs

from torch import Tensor

from data.batch import Batch, Sample
from inference.padding import padded
from inference.predictor import Predictor
from tools.playground.page import Description, build_page
from tools.playground.samples import MAX_BYTES, Samples
from utils.cli import is_out_of_memory
from utils.errors import ConfigError, UserError
from utils.log import logger

ADDRESS = "127.0.0.1"
PORT = 8765
HOST = re.compile(r"(127\.0\.0\.1|localhost)(:\d{1,5})?", re.ASCII | re.IGNORECASE)
MAX_SEED = 2**31 - 1
BINARY = "application/octet-stream"
TEXT = "text/plain; charset=utf-8"
NOTHING = "there is nothing at this address"
STOPPED = "The playground was stopped. Start it again: python -m tools.playground"
SILENCE_S = 60.0  # of a connection, after which it is closed
PATIENCE_S = 2.0  # with the answers that are on their way when the server stops


class RefusedError(Exception):
    """A request that is not answered; `text` says why, in one line."""

    def __init__(self, status: HTTPStatus, text: str) -> None:
        super().__init__(text)
        self.status, self.text = status, text


@dataclass(frozen=True)
class DirectionPage:
    """The page of a generator: what it shows, and what translates for it."""

    description: Description
    samples: Samples
    predictor: Predictor

    def translate(self, sample: Sample, seed: int) -> Tensor:
        """Return (3, H, W) uint8 RGB to look at, of the size of the sample times the generator's scale.

        seed: of features and noise, where the generator takes them.
        """
        rule = self.samples.preprocessing
        enlarged, window = padded(sample, rule.size_multiple, rule.min_size, rule.target_scale)
        translated = window.cut(self.predictor.with_seed(seed).translate(Batch.of([enlarged]))[0])
        return self.predictor.show_target(translated).contiguous()


class PlaygroundServer(ThreadingHTTPServer):
    """Serves the page of each direction and translates its pictures. It reads no file by the path of a request.

    port: None for PORT, or any that is free where that is in use.
    first: what is at the address /; the others are at /DIRECTION/.
    open_page: returns that of another direction of the first one's, once.

    Raises:
        ConfigError: the port is in use, or may not be used.
    """

    daemon_threads = True
    request_queue_size = 128  # connections that wait; of more than the usual 5, the rest are reset

    def __init__(self, port: int | None, first: DirectionPage, open_page: Callable[[str], DirectionPage]) -> None:
        self.model = sha256(first.description.to_json().encode()).hexdigest()[:16]
        self.nonce = nonce = secrets.token_urlsafe(16)
        self.policy = (
            f"default-src 'none'; script-src 'nonce-{nonce}' data:; style-src 'nonce-{nonce}'; img-src 'self' data: "
            "blob:; media-src blob:; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
        )
        self._pages = {first.description.direction: first}
        self._first = first
        self._open_page = open_page
        self._opening = threading.Lock()
        # one for all, because each thread that computes gets a pool of threads from torch
        self._translating = ThreadPoolExecutor(1, thread_name_prefix="translator")
        self._newest: Future[Tensor] | None = None
        self._is_stopped = False
        self._answering = 0
        self._answered = threading.Condition()
        try:
            super().__init__((ADDRESS, PORT if port is None else port), Handler)
        except OSError as error:
            if port is not None:
                raise ConfigError(f"--port {port}: {error.strerror}. Choose another, or leave it out.") from error
            super().__init__((ADDRESS, 0), Handler)

    def page_of(self, direction: str | None) -> DirectionPage:
        """Return what is at the address of a direction, None for the first one's; raise RefusedError where nothing is.

        It may be loaded, which raises as `open_page`.
        """
        if direction is None:
            return self._first
        if direction not in self._first.description.directions:
            raise RefusedError(HTTPStatus.NOT_FOUND, NOTHING)
        with self._opening:
            if direction not in self._pages:
                self._pages[direction] = self._open_page(direction)
        return self._pages[direction]

    def translate(self, page: DirectionPage, sample: Sample, seed: int) -> Tensor:
        """Return the translation of a page's picture; those that come meanwhile wait their turn.

        Raises:
            CancelledError: the server is stopped before its turn comes.
        """
        if self._is_stopped:
            raise CancelledError
        self._newest = turn = self._translating.submit(page.translate, sample, seed)
        return turn.result()

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
        """Stop listening and translating; the translation that is computed, and the answers, are waited for."""
        self._is_stopped = True
        if self._newest is not None and not self._newest.done():
            logger.info("stopping after this translation; Ctrl-C again stops at once")
        self.server_close()
        self._translating.shutdown(cancel_futures=True)
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
        page, place, _ = self._address()
        if self.path == "/" and page.description.directions:  # each page keeps its drawing by its address
            self._answer(HTTPStatus.FOUND, TEXT, b"", {"Location": f"/{page.description.direction}/"})
            return
        if place == "":
            html = build_page(page.description, "server_engine", nonce=self.server.nonce)
            self._answer(HTTPStatus.OK, "text/html; charset=utf-8", html.encode())
            return
        number = re.fullmatch(r"samples/(\d{1,6})", place, re.ASCII)
        if number is None:
            raise RefusedError(HTTPStatus.NOT_FOUND, NOTHING)
        sample = page.samples.show(int(number[1]))
        height, width = sample.source.shape[-2:]
        packed = page.samples.pack(sample)
        self._answer(HTTPStatus.OK, BINARY, packed, {"X-Width": str(width), "X-Height": str(height)})

    def _address(self) -> tuple[DirectionPage, str, str]:
        """Return the page that a request is for, the place within its address, and the query."""
        path, _, query = self.path.partition("?")
        match = re.fullmatch(r"/(?:(AtoB|BtoA)/)?(.*)", path, re.ASCII | re.DOTALL)
        if match is None:
            raise RefusedError(HTTPStatus.NOT_FOUND, NOTHING)
        return self.server.page_of(match[1]), match[2], query

    def _post(self) -> None:
        body = self.rfile.read(self._length())
        page, place, query = self._address()
        if place != "translate":
            raise RefusedError(HTTPStatus.NOT_FOUND, NOTHING)
        if self.headers.get_content_type() != BINARY:  # pages of other origins cannot send it without being asked
            raise RefusedError(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, f"expected a picture as {BINARY}")
        numbers = parse_qs(query)
        width, height, seed = (_number(numbers, name) for name in ("width", "height", "seed"))
        translated = self.server.translate(page, page.samples.unpack(body, width, height), seed)
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
            self._refuse(HTTPStatus.SERVICE_UNAVAILABLE, STOPPED)
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
        if int(text) > MAX_BYTES:
            problem = f"{int(text):,} bytes, at most {MAX_BYTES:,}: use a smaller picture"
            raise RefusedError(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, problem)
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

    def _answer(self, status: HTTPStatus, kind: str, body: bytes, headers: Mapping[str, str] | None = None) -> None:
        self.send_response(status)
        own = {
            "Content-Type": kind,
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
