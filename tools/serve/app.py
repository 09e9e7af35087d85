"""The addresses of the service: /translate, /reload, /model, /health, /metrics and /openapi.json."""

import argparse
import asyncio
import json
import logging
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from dataclasses import asdict, dataclass
from http import HTTPStatus
from pathlib import Path, PurePosixPath
from typing import Any

import torch
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, ProcessCollector, generate_latest
from python_multipart.exceptions import FormParserError
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route, Router
from torch import Tensor

from data.files.size_guard import pixels_allowed
from tools.serve.file_processes import FileProcesses, file_processes
from tools.serve.gate import SOON, Gate, number, read_token, unless_gone
from tools.serve.request_files import NAME, Upload
from tools.serve.translation import Job, Translator, open_translator
from tools.serve.turns import Turns
from tools.serve.web import WebServer
from utils.errors import UserError
from utils.limits import MAX_CHANNELS
from utils.signatures import accepted
from utils.text import listed
from utils.worker_threads import MOST_THREADS

DESCRIPTION = Path(__file__).with_name("openapi.json")
PATHS = ("/translate", "/reload", "/model", "/health", "/metrics", "/openapi.json")
_MOST_PIXELS = 2**21  # pixels of a batch; a larger batch takes more memory, but not less time per pixel
_READING = 6  # the share of `timeout_s` that reading the files of a request may take
_REMEDY = "send a smaller image, or start the server with --tile 512 or a smaller --batch-size"
logging.getLogger("python_multipart").setLevel(logging.CRITICAL)  # damaged forms are answered, not reported


@dataclass(frozen=True)
class Limits:
    """The most that one request, and all together, may take.

    max_bytes: Bytes of a request's body.
    max_pixels: Pixels of an image.
    timeout_s: Seconds from the begin of a request to the begin of its translation.
    max_waiting: Number of translations that are read, computed or wait.
    """

    max_bytes: int
    max_pixels: int
    timeout_s: int
    max_waiting: int


class Service:
    """Answers requests for translations.

    open_translator: Returns the translator of the newest checkpoint.
    processes: Read the files of requests, except small PNGs, because a file can make its decoder slow.
    seed: Seed of requests that name none.
    """

    def __init__(
        self, open_translator: Callable[[], Translator], processes: FileProcesses, limits: Limits, seed: int = 0
    ) -> None:
        self._open_translator, self._processes, self._limits, self._seed = open_translator, processes, limits, seed
        self._translator = translator = open_translator()
        most_pixels = min(limits.max_pixels, _MOST_PIXELS)
        self._turns = Turns[Job, Tensor](_compute, translator.most_together, most_pixels)
        self._opening = ThreadPoolExecutor(1, "reload")
        self._files = ThreadPoolExecutor(MOST_THREADS, "files", torch.set_num_threads, (1,))
        self._places = asyncio.Semaphore(limits.max_waiting)
        self._decoded = asyncio.Semaphore(2 * translator.most_together)  # others wait as their undecoded bodies
        self._figures = own = CollectorRegistry()
        ProcessCollector(registry=own)
        answers, labels = "Answers; status 0: the client was gone", ("path", "status")
        self._answers = Counter("pairgan_answers", answers, labels, registry=own)
        self._seconds = Histogram("pairgan_translation_seconds", "From request to translation", registry=own)
        self._waiting = Gauge("pairgan_waiting", "Translations that are read, computed or wait", registry=own)

    def close(self) -> None:
        """Compute and load no more."""
        self._turns.close()
        for threads in (self._opening, self._files):
            threads.shutdown(wait=False, cancel_futures=True)

    def app(self, token: str | None) -> Gate:
        """Return the application. For `token` see Gate."""
        routes = [
            Route("/translate", self._translate, methods=["POST"]),
            Route("/reload", self._reload, methods=["POST"]),
            Route("/model", self._model),
            Route("/health", lambda _: PlainTextResponse("ok\n")),
            Route("/metrics", lambda _: PlainTextResponse(generate_latest(self._figures))),
            Route("/openapi.json", lambda _: JSONResponse(self.describe_api())),
        ]
        router = Router(routes, redirect_slashes=False)
        return Gate(router, self._limits.max_bytes, _REMEDY, token, observe=self._observe)

    def describe_api(self) -> dict[str, Any]:
        """Return the description of the service, with the files that this generator takes."""
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
        translator = self._translator  # this request keeps it, even if another one is loaded meanwhile
        try:
            async with asyncio.timeout(self._limits.timeout_s) as limit:
                files, name = await _uploads(request, translator.files.kinds)
                if self._places.locked():
                    text = f"{self._limits.max_waiting} translations are under way: try again later"
                    raise HTTPException(HTTPStatus.SERVICE_UNAVAILABLE, text, SOON)
                async with self._places:
                    with self._waiting.track_inprogress():
                        work = self._translation(translator, files, name, seed, limit)
                        content = await unless_gone(request, work)
        except TimeoutError as error:
            text = f"not begun within {self._limits.timeout_s} s: try again later, or send a smaller image"
            raise HTTPException(HTTPStatus.SERVICE_UNAVAILABLE, text, SOON) from error
        return Response(content, media_type=translator.files.media_type)

    async def _translation(
        self, translator: Translator, files: Mapping[str, Upload], name: str, seed: int, limit: asyncio.Timeout
    ) -> bytes:
        """Return a translation as the bytes of a file. `limit` ends when the network begins."""

        def begin() -> None:
            if not limit.expired():
                limit.reschedule(None)

        own, loop = translator.files, asyncio.get_running_loop()
        async with self._decoded:
            if all(file.is_quick for file in files.values()):
                sample, window = await loop.run_in_executor(self._files, own.read, files, name)
            else:
                most_s = self._limits.timeout_s / _READING
                sample, window = await self._processes.call(most_s, own.read, files, name)
            job = Job(sample, seed, translator)
            image = await self._turns.computed(job, job.kind, sample.source[0].numel(), begin)
        return await loop.run_in_executor(self._files, own.written, window.cut(image), files["source"])

    async def _reload(self, _request: Request) -> Response:
        """Load the newest checkpoint. Requests that have begun keep the former one."""
        try:
            loop = asyncio.get_running_loop()
            self._translator = await loop.run_in_executor(self._opening, self._open_translator)
        except UserError as error:
            text = f"{error} The service goes on as before."
            raise HTTPException(HTTPStatus.CONFLICT, text) from error
        return self._model(_request)

    def _model(self, _request: Request) -> Response:
        return JSONResponse(self._translator.describe() | {"limits": asdict(self._limits)})

    def _observe(self, path: str, status: int, seconds: float) -> None:
        """Count an answer."""
        self._answers.labels(path if path in PATHS else "other", status).inc()  # paths of clients would fill the memory
        if (path, status) == ("/translate", HTTPStatus.OK):
            self._seconds.observe(seconds)


def _compute(jobs: Sequence[Job]) -> Sequence[Tensor]:
    return jobs[0].translator.compute(jobs)


async def _uploads(request: Request, expected: Sequence[str]) -> tuple[dict[str, Upload], str]:
    """Return the files of a request by kind, and the name of the image.

    expected: Kinds of files that the generator takes.
    """
    files, given, name = dict[str, Upload](), list[str](), NAME
    curl = "With curl: " + " ".join(f"--form {kind}=@FILE" for kind in expected)
    media_type = request.headers.get("content-type", "")
    if media_type.lower().startswith("multipart/form-data"):
        try:
            async with request.form(max_files=MAX_CHANNELS, max_fields=MAX_CHANNELS) as form:
                for kind, part in form.multi_items():
                    given.append(f"{kind} (no file)" if isinstance(part, str) else kind)
                    if not isinstance(part, str):
                        files[kind] = Upload(kind, await part.read())
                        name = PurePosixPath(part.filename or "").stem or name if kind == "source" else name
        except (FormParserError, LookupError, UnicodeError, HTTPException) as error:
            if getattr(error, "status_code", HTTPStatus.BAD_REQUEST) != HTTPStatus.BAD_REQUEST:
                raise  # the gate has raised it
            reason = str(getattr(error, "detail", error)).rstrip(".")
            text = f"the body cannot be read as {media_type}: {reason}. {curl}"
            raise HTTPException(HTTPStatus.BAD_REQUEST, text) from error
    else:
        given, files["source"] = ["source"], Upload("source", await request.body())
    if sorted(given) != sorted(expected):
        shown = ", ".join(given) or "nothing"
        text = f"this generator takes {', '.join(expected)}; given: {shown}. {curl}"
        raise HTTPException(HTTPStatus.BAD_REQUEST, text)
    return files, name.encode(errors="replace").decode()  # some charsets decode to what cannot be encoded again


@contextmanager
def service(arguments: argparse.Namespace) -> Iterator[WebServer]:
    """Load a generator and yield its server, which listens and does not answer yet.

    Raises:
        UserError, OSError: The checkpoint, the token or the address cannot be used.
    """
    token = read_token(arguments.token_file, arguments.host)
    most_pixels = arguments.max_pixels
    with (
        tempfile.TemporaryDirectory(prefix="pairgan-") as folder,
        pixels_allowed(most_pixels),
        file_processes(most_pixels) as processes,
    ):
        limits = Limits(**accepted(Limits, vars(arguments)))
        answers = Service(lambda: open_translator(arguments, Path(folder)), processes, limits, arguments.seed)
        with (
            closing(answers),
            closing(WebServer(answers.app(token), arguments.host, arguments.port, arguments.drain_s)) as server,
        ):
            yield server
