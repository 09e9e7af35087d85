"""The translation service with its addresses /translate, /reload, /model and /health."""

import argparse
import asyncio
import logging
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from http import HTTPStatus
from itertools import repeat
from pathlib import Path, PurePosixPath
from types import MappingProxyType
from typing import Any, TypeVar

import torch
from python_multipart.exceptions import FormParserError
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import BaseRoute, Route, Router
from torch import Tensor

from data.files.stored_image import pixels_allowed
from tools.serve.file_processes import FileProcesses, file_processes
from tools.serve.gate import SOON, Gate, number, unless_gone
from tools.serve.request_files import NAME, Upload
from tools.serve.translation import Job, TranslationQueue, Translator, open_translator
from tools.serve.web import WebServer
from utils.errors import UserError
from utils.limits import MAX_CHANNELS
from utils.text import listed
from utils.worker_threads import MOST_THREADS

PARAMETERS = ("seed", "other", "percent", "picture")  # query parameters of /translate
LIMITS = ("max_bytes", "max_pixels", "timeout_s", "max_waiting")  # options that /model returns
_READING = 6  # the files of a request must be read within timeout_s / _READING
_Result = TypeVar("_Result")
_REMEDY = "Send a smaller image, or start the server with --tile 512 or a smaller --batch-size."
logging.getLogger("python_multipart").setLevel(logging.CRITICAL)  # the client gets the error


class Service:
    """An HTTP service that translates images.

    arguments: Parsed command line of the server.
    folder: Folder for temporary files.
    processes: Processes that decode files. Threads decode small PNG files and uncompressed files instead.
    """

    headers: Mapping[str, str] = MappingProxyType({})
    """Additional headers of all responses."""

    def __init__(self, arguments: argparse.Namespace, folder: Path, processes: FileProcesses) -> None:
        self.arguments, self.folder, self._processes = arguments, folder, processes
        self.translator = self.open_translator()
        self._queue = TranslationQueue(arguments.max_pixels)
        self._threads = ThreadPoolExecutor(MOST_THREADS, "files", torch.set_num_threads, (1,))
        self._places = asyncio.Semaphore(arguments.max_waiting)
        self._decoded = asyncio.Semaphore(2 * self.translator.batch_size)  # limits decoded images in memory

    def open_translator(self) -> Translator:
        """Load the newest checkpoint."""
        return open_translator(self.arguments, self.folder)

    def close(self) -> None:
        """Stop all translations and threads."""
        self._queue.close()
        self._threads.shutdown(wait=False, cancel_futures=True)

    def app(self, token: str | None = None) -> Gate:
        """Return the ASGI application. `token`: See Gate."""
        router = Router(self.routes(), redirect_slashes=False)
        return Gate(router, self.arguments.max_bytes, _REMEDY, token, self.headers)

    def routes(self) -> list[BaseRoute]:
        """Return the addresses of the service with their handlers."""
        return [
            Route("/translate", self._translate, methods=["POST"]),
            Route("/reload", self._reload, methods=["POST"]),
            Route("/model", self._model),
            Route("/health", lambda _: PlainTextResponse("ok\n")),
        ]

    async def in_thread(self, function: Callable[..., _Result], *arguments: Any) -> _Result:
        """Call a function in a thread of the service and return the result."""
        return await asyncio.get_running_loop().run_in_executor(self._threads, function, *arguments)

    async def _translate(self, request: Request) -> Response:
        names = [name for name, _ in request.query_params.multi_items()]
        if len(set(names)) < len(names) or not {*names} <= {*PARAMETERS}:
            text = f"parameters {listed(names)}: use only {', '.join(PARAMETERS)}, each at most once"
            raise HTTPException(HTTPStatus.BAD_REQUEST, text)
        defaults = (self.arguments.seed, 0, 0, 0)
        seed, other, percent, is_picture = map(number, repeat(request), PARAMETERS, map(str, defaults))
        translator = self.translator  # /reload can replace self.translator during this request
        try:
            async with asyncio.timeout(self.arguments.timeout_s) as limit:
                files, name = await _uploads(request, translator.files.kinds)
                if self._places.locked():
                    text = f"{self.arguments.max_waiting} other requests are in progress. Try again later."
                    raise HTTPException(HTTPStatus.SERVICE_UNAVAILABLE, text, SOON)
                async with self._places:
                    toward = (other, min(percent, 100) / 100) if percent else None
                    work = self._translation(translator, files, name, (seed, toward), limit)
                    image = await unless_gone(request, work)
        except TimeoutError as error:
            text = f"the translation did not begin in {self.arguments.timeout_s} s. Try later, or send a smaller image."
            raise HTTPException(HTTPStatus.SERVICE_UNAVAILABLE, text, SOON) from error
        if is_picture:
            return Response(await self.in_thread(translator.picture, image), media_type="image/bmp")
        content = await self.in_thread(translator.files.write, image, files["source"])
        return Response(content, media_type=translator.files.media_type)

    async def _translation(
        self,
        translator: Translator,
        files: Mapping[str, Upload],
        name: str,
        seed_and_toward: tuple[int, tuple[int, float] | None],
        limit: asyncio.Timeout,
    ) -> Tensor:
        """Return a translation. seed_and_toward: See Job. limit: Timeout until the network begins."""

        def begin() -> None:
            if not limit.expired():
                limit.reschedule(None)

        read = translator.files.read
        async with self._decoded:
            if all(file.is_quick for file in files.values()):
                sample, window = await self.in_thread(read, files, name)
            else:
                sample, window = await self._processes.call(self.arguments.timeout_s / _READING, read, files, name)
            image = await self._queue.translate(Job(translator, sample, *seed_and_toward, begin))
        return window.cut(image)

    async def _reload(self, request: Request) -> Response:
        """Load the newest checkpoint. Current requests still use the previous generator."""
        try:
            self.translator = await self.in_thread(self.open_translator)
        except UserError as error:
            raise HTTPException(HTTPStatus.CONFLICT, f"{error} The service keeps the previous generator.") from error
        return self._model(request)

    def _model(self, _request: Request) -> Response:
        limits = {name: getattr(self.arguments, name) for name in LIMITS}
        return JSONResponse(self.translator.describe() | {"limits": limits})


async def _uploads(request: Request, expected: Sequence[str]) -> tuple[dict[str, Upload], str]:
    """Return the files of a request by form field, and the name of the source image.

    expected: Form fields that the generator needs, such as source and instances.
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
                raise  # Gate refused the request
            reason = str(getattr(error, "detail", error)).rstrip(".")
            text = f"the body cannot be read as {media_type}: {reason}. {curl}"
            raise HTTPException(HTTPStatus.BAD_REQUEST, text) from error
    else:
        given, files["source"] = ["source"], Upload("source", await request.body())
    if volumes := [kind for kind, file in files.items() if file.is_volume]:
        text = f"{', '.join(volumes)}: is a volume or a gzip file, not an image. Run python test.py --input FILE."
        raise HTTPException(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, text)
    if sorted(given) != sorted(expected):
        shown = ", ".join(given) or "nothing"
        text = f"this generator needs {', '.join(expected)}, but the request has {shown}. {curl}"
        raise HTTPException(HTTPStatus.BAD_REQUEST, text)
    return files, name.encode(errors="replace").decode()  # replace lone surrogates


@contextmanager
def serving(service: type[Service], arguments: argparse.Namespace, token: str | None) -> Iterator[WebServer]:
    """Load a generator and yield its server. The server listens, but answers only after `run`.

    Raises:
        UserError, OSError: The checkpoint or the address cannot be used.
    """
    with (
        tempfile.TemporaryDirectory(prefix="pairgan-") as folder,
        pixels_allowed(arguments.max_pixels),
        file_processes(arguments.max_pixels) as processes,
        closing(service(arguments, Path(folder), processes)) as opened,
        closing(WebServer(opened.app(token), arguments.host, arguments.ports, arguments.drain_s)) as server,
    ):
        yield server
