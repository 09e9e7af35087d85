"""The addresses of the service: /translate, /model, /health, /metrics and /openapi.json."""

import asyncio
import json
import logging
from concurrent.futures import Executor
from dataclasses import asdict, dataclass
from http import HTTPStatus
from math import inf
from pathlib import Path, PurePosixPath
from typing import Any

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, ProcessCollector, generate_latest
from python_multipart.exceptions import FormParserError
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route, Router

from tools.serve.gate import SOON, STOPPING, Gate, number, unless_gone
from tools.serve.translation import NAME, Translator, Upload
from tools.serve.turns import Turns
from utils.limits import MAX_CHANNELS
from utils.text import listed

DESCRIPTION = Path(__file__).with_name("openapi.json")
PATHS = ("/translate", "/model", "/health", "/metrics", "/openapi.json")
_REMEDY = "send a smaller image, or start the server with --tile 512 or a smaller --batch-size"
logging.getLogger("python_multipart").setLevel(logging.CRITICAL)  # damaged forms are answered, not reported


@dataclass(frozen=True)
class Limits:
    """The most that one request, and all together, may take.

    max_bytes: of a request's body. max_pixels: of an image, and of those translated together. timeout_s: until it is
    translated, from the begin of its upload. max_waiting: translations that are read, computed or wait.
    """

    max_bytes: int
    max_pixels: int
    timeout_s: int
    max_waiting: int


class Service:
    """Answers requests for translations.

    files: threads that read and write images. seed: of requests that name none.
    """

    def __init__(self, translator: Translator, files: Executor, limits: Limits, seed: int = 0) -> None:
        self._translator, self._files, self._limits, self._seed = translator, files, limits, seed
        self.turns = Turns(translator.compute, STOPPING, translator.most_together, limits.max_pixels)
        self._figures = own = CollectorRegistry()
        ProcessCollector(registry=own)
        answers, labels = "Answers; status 0: the client was gone", ("path", "status")
        self._answers = Counter("pairgan_answers", answers, labels, registry=own)
        self._seconds = Histogram("pairgan_translation_seconds", "From request to translation", registry=own)
        self._waiting = Gauge("pairgan_waiting", "Translations that are read, computed or wait", registry=own)
        self._places = asyncio.Semaphore(limits.max_waiting)

    def app(self, token: str | None) -> Gate:
        """Return the application; token: see Gate."""
        routes = [
            Route("/translate", self._translate, methods=["POST"]),
            Route("/model", lambda _: JSONResponse(self._translator.describe() | {"limits": asdict(self._limits)})),
            Route("/health", self._health),
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
        kinds, file = list(self._translator.kinds), {"type": "string", "format": "binary"}
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
        translator, loop = self._translator, asyncio.get_running_loop()
        files, name = await self._uploads(request)
        if self._places.locked():  # as many images are in the memory
            text = f"{self._limits.max_waiting} translations are under way: try again later"
            raise HTTPException(HTTPStatus.SERVICE_UNAVAILABLE, text, SOON)
        async with self._places:
            with self._waiting.track_inprogress():
                job = await loop.run_in_executor(self._files, translator.read, files, name, seed)
                n_pixels, deadline = job.sample.source[0].numel(), limit.when() or inf
                work = self.turns.computed(job, job.kind, n_pixels, deadline)
                image = await unless_gone(request, work)
                limit.reschedule(None)  # what is computed is not thrown away
                content = await loop.run_in_executor(self._files, translator.written, job, image)
        return Response(content, media_type=translator.media_type)

    async def _uploads(self, request: Request) -> tuple[dict[str, Upload], str]:
        """Return the files of a request by kind, and the name of the image."""
        files, given, name, expected = dict[str, Upload](), list[str](), NAME, self._translator.kinds
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

    async def _health(self, _request: Request) -> Response:
        if self.turns.is_stopped:
            raise HTTPException(HTTPStatus.SERVICE_UNAVAILABLE, "stopping")
        return PlainTextResponse("ok\n")

    def _observe(self, path: str, status: int, seconds: float) -> None:
        """Count an answer."""
        self._answers.labels(path if path in PATHS else "other", status).inc()  # paths of clients would fill the memory
        if (path, status) == ("/translate", HTTPStatus.OK):
            self._seconds.observe(seconds)
