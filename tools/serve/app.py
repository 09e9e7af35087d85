"""The addresses of the service: /translate, /model, /health, /metrics and /openapi.json."""

import asyncio
import json
import logging
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from dataclasses import asdict, dataclass
from http import HTTPStatus
from math import inf
from pathlib import Path, PurePosixPath
from typing import Any, TypeVar

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, ProcessCollector, generate_latest
from python_multipart.exceptions import FormParserError
from python_multipart.multipart import parse_options_header
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route, Router
from torch import Tensor

from data.batch import Sample
from inference.tiling import Window
from tools.serve.file_processes import FileProcesses
from tools.serve.gate import SOON, Gate, number, unless_gone
from tools.serve.request_files import NAME, RequestFiles, Upload
from tools.serve.translation import Job, Translator
from tools.serve.turns import Turns
from utils.errors import UserError
from utils.limits import MAX_CHANNELS
from utils.text import listed

DESCRIPTION = Path(__file__).with_name("openapi.json")
PATHS = ("/translate", "/reload", "/model", "/health", "/metrics", "/openapi.json")
# Charsets of forms that never decode to lone surrogates, which cannot be encoded again.
_CHARSETS = ("", "utf-8", "utf8", "ascii", "us-ascii", "latin-1", "latin1", "iso-8859-1", "cp1252", "windows-1252")
_Result = TypeVar("_Result")
_MOST_PIXELS = 2**21  # of a batch; a larger one takes more memory, but is not faster for each pixel
_READING = 6  # the share of `timeout_s` that reading the files of a request may take
_REMEDY = "send a smaller image, or start the server with --tile 512 or a smaller --batch-size"
logging.getLogger("python_multipart").setLevel(logging.CRITICAL)  # damaged forms are answered, not reported


@dataclass(frozen=True)
class Limits:
    """The most that one request, and all together, may take.

    max_bytes: of a request's body. max_pixels: of an image. timeout_s: until it is
    translated, from the begin of its upload. max_waiting: translations that are read, computed or wait.
    """

    max_bytes: int
    max_pixels: int
    timeout_s: int
    max_waiting: int


class Service:
    """Answers requests for translations.

    open_translator: Returns the translator of the newest checkpoint.
    files: Processes that read images, because a client's file can make a decoder slow. Threads read small PNGs, and
        write answers: both take little more time than their pixels need.
    seed: Seed of requests that name none.
    """

    def __init__(
        self, open_translator: Callable[[], Translator], files: FileProcesses, limits: Limits, seed: int = 0
    ) -> None:
        self._open_translator, self._files, self._limits, self._seed = open_translator, files, limits, seed
        self._translator = translator = open_translator()
        self._most_pixels = min(limits.max_pixels, _MOST_PIXELS)
        self._turns = Turns[Job, Tensor](_compute, translator.most_together, self._most_pixels)
        self._opening, self._threads = ThreadPoolExecutor(1, "reload"), ThreadPoolExecutor(files.n_processes, "codec")
        self._decoding, self._room, self._n_decoded = asyncio.Semaphore(files.n_processes - 1), asyncio.Event(), 0
        self._room.set()
        self._figures = own = CollectorRegistry()
        ProcessCollector(registry=own)
        answers, labels = "Answers; status 0: the client was gone", ("path", "status")
        self._answers = Counter("pairgan_answers", answers, labels, registry=own)
        self._seconds = Histogram("pairgan_translation_seconds", "From request to translation", registry=own)
        self._waiting = Gauge("pairgan_waiting", "Translations that are read, computed or wait", registry=own)
        self._places = asyncio.Semaphore(limits.max_waiting)

    def close(self) -> None:
        """Compute and load no more."""
        self._turns.close()
        for threads in (self._opening, self._threads):
            threads.shutdown(wait=False, cancel_futures=True)

    def app(self, token: str | None) -> Gate:
        """Return the application; token: see Gate."""
        routes = [
            Route("/translate", self._translate, methods=["POST"]),
            Route("/reload", self._reload, methods=["POST"]),
            Route("/model", self._model),
            Route("/health", lambda _: PlainTextResponse("ok\n")),
            Route("/metrics", lambda _: PlainTextResponse(generate_latest(self._figures))),
            Route("/openapi.json", lambda _: JSONResponse(self.describe_api())),
        ]
        router = Router(routes, redirect_slashes=False)
        headers = {"Cache-Control": "no-store", "X-Content-Type-Options": "nosniff"}
        most, index = self._limits.max_bytes, "/openapi.json"
        return Gate(router, most, _REMEDY, token, ("/health",), headers, self._observe, index)

    def describe_api(self) -> dict[str, Any]:
        """Return the description of the service, whose requests have the files that this generator takes."""
        description: dict[str, Any] = json.loads(DESCRIPTION.read_text(encoding="utf-8"))
        content = description["paths"]["/translate"]["post"]["requestBody"]["content"]
        kinds, file = self._translator.files.kinds, {"type": "string", "format": "binary"}
        form = {"type": "object", "required": kinds, "properties": dict.fromkeys(kinds, file)}
        content["multipart/form-data"] = {"schema": form | {"additionalProperties": False}}
        if len(kinds) > 1:
            del content["application/octet-stream"]
        return description

    async def _translate(self, request: Request) -> Response:
        seed = number(request, "seed", str(self._seed))
        if (names := [name for name, _ in request.query_params.multi_items()]) not in ([], ["seed"]):
            text = f"the address has the parameters {listed([*map(repr, names)])}: it takes seed=N, once, and no other"
            raise HTTPException(HTTPStatus.BAD_REQUEST, text)
        try:
            async with asyncio.timeout(self._limits.timeout_s) as limit:
                return await self._translated(request, seed, limit)
        except TimeoutError as error:
            text = f"cannot be translated within {self._limits.timeout_s} s: try again later, or send a smaller image"
            raise HTTPException(HTTPStatus.SERVICE_UNAVAILABLE, text, SOON) from error

    async def _translated(self, request: Request, seed: int, limit: asyncio.Timeout) -> Response:
        translator = self._translator  # this request keeps it, also if another one is loaded meanwhile
        files, name = await self._uploads(request, translator.files.kinds)
        if self._places.locked():
            text = f"{self._limits.max_waiting} translations are under way: try again later"
            raise HTTPException(HTTPStatus.SERVICE_UNAVAILABLE, text, SOON)
        async with self._places:
            with self._waiting.track_inprogress():
                content = await unless_gone(request, self._content(translator, files, name, seed, limit))
        return Response(content, media_type=translator.files.media_type)

    async def _content(
        self, translator: Translator, files: Mapping[str, Upload], name: str, seed: int, limit: asyncio.Timeout
    ) -> bytes:
        """Return a translation as the bytes of a file."""
        async with self._decoded(translator.files, files, name) as (sample, window):
            job, n_pixels = Job(sample, seed, translator), sample.source[0].numel()
            image = await self._turns.computed(job, job.kind, n_pixels, limit.when() or inf)
            limit.reschedule(None)  # what is computed is not thrown away
            return await self._in_thread(translator.files.written, window.cut(image), files["source"])

    @asynccontextmanager
    async def _decoded(
        self, reader: RequestFiles, files: Mapping[str, Upload], name: str
    ) -> AsyncIterator[tuple[Sample, Window]]:
        """Decode the files of a request, and count their pixels until the request is answered.

        A request waits undecoded while the decoded requests have as many pixels as two full batches. It may then
        exceed this by its own pixels.
        """
        async with self._decoding:
            await self._room.wait()
            if all(file.is_quick for file in files.values()):
                sample, window = await self._in_thread(reader.read, files, name)
            else:
                sample, window = await self._files.call(self._limits.timeout_s / _READING, reader.read, files, name)
            n_pixels = sample.source[0].numel()
            self._count(n_pixels)
        try:
            yield sample, window
        finally:
            self._count(-n_pixels)

    async def _in_thread(self, function: Callable[..., _Result], *arguments: Any) -> _Result:
        return await asyncio.get_running_loop().run_in_executor(self._threads, function, *arguments)

    def _count(self, n_pixels: int) -> None:
        """Count decoded pixels, and let others be decoded while there is room."""
        self._n_decoded += n_pixels
        if self._n_decoded < 2 * self._most_pixels:
            self._room.set()
        else:
            self._room.clear()

    async def _reload(self, _request: Request) -> Response:
        """Load the newest checkpoint; requests that have begun keep the former one."""
        try:
            loop = asyncio.get_running_loop()
            self._translator = await loop.run_in_executor(self._opening, self._open_translator)
        except UserError as error:
            text = f"{error} The service goes on as before."
            raise HTTPException(HTTPStatus.CONFLICT, text) from error
        return self._model(_request)

    def _model(self, _request: Request) -> Response:
        return JSONResponse(self._translator.describe() | {"limits": asdict(self._limits)})

    async def _uploads(self, request: Request, expected: Sequence[str]) -> tuple[dict[str, Upload], str]:
        """Return the files of a request by kind, and the name of the image.

        expected: Kinds of files that the generator takes.
        """
        files, given, name = dict[str, Upload](), list[str](), NAME
        curl = "With curl: " + " ".join(f"--form {kind}=@FILE" for kind in expected)
        media_type = request.headers.get("content-type", "")
        if media_type.lower().startswith("multipart/form-data"):
            _check_charset(media_type)
            try:
                async with request.form(max_files=MAX_CHANNELS, max_fields=MAX_CHANNELS) as form:
                    for kind, part in form.multi_items():
                        given.append(f"{kind} (no file)" if isinstance(part, str) else kind)
                        if not isinstance(part, str):
                            files[kind] = Upload(kind, await part.read())
                            name = PurePosixPath(part.filename or "").stem or name if kind == "source" else name
            except (FormParserError, HTTPException) as error:
                if getattr(error, "status_code", HTTPStatus.BAD_REQUEST) != HTTPStatus.BAD_REQUEST:
                    raise  # it is the gate's
                reason = str(getattr(error, "detail", error)).rstrip(".")
                text = f"the body cannot be read as {media_type}: {reason}. {curl}"
                raise HTTPException(HTTPStatus.BAD_REQUEST, text) from error
        else:
            given, files["source"] = ["source"], Upload("source", await request.body())
        if sorted(given) != sorted(expected):
            shown = ", ".join(given) or "nothing"
            text = f"this generator takes {', '.join(expected)}; given: {shown}. {curl}"
            raise HTTPException(HTTPStatus.BAD_REQUEST, text)
        return files, name

    def _observe(self, path: str, status: int, seconds: float) -> None:
        """Count an answer."""
        self._answers.labels(path if path in PATHS else "other", status).inc()  # paths of clients would fill the memory
        if (path, status) == ("/translate", HTTPStatus.OK):
            self._seconds.observe(seconds)


def _compute(jobs: Sequence[Job]) -> Sequence[Tensor]:
    return jobs[0].translator.compute(jobs)


def _check_charset(media_type: str) -> None:
    """Refuse a form with names in a charset that can decode to text that cannot be encoded again."""
    charset = parse_options_header(media_type)[1].get(b"charset", b"").decode("latin-1")
    if charset.lower() not in _CHARSETS:
        raise HTTPException(
            HTTPStatus.BAD_REQUEST, f"charset={charset}: not supported; leave the charset out, or write utf-8"
        )
