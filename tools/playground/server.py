"""The server of the playground: the page, its samples and translations, only for this machine."""

import argparse
import secrets
import tempfile
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from functools import partial
from hashlib import sha256
from http import HTTPStatus
from pathlib import Path

import torch
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.routing import Mount, Route, Router
from torch import Tensor

from data.batch import Batch, Sample
from inference.load import directions_of
from inference.predictor import Predictor
from inference.reading import padded
from tools.playground.page import Description, build_page, describe
from tools.playground.samples import MAX_BYTES, Samples, open_samples
from tools.serve.command_line import LOOPBACK, PAGE_PORT
from tools.serve.gate import Gate, number, unless_gone
from tools.serve.generator import open_generator
from tools.serve.turns import Turns
from tools.serve.web import WebServer
from utils.errors import ConfigError

BINARY = "application/octet-stream"


@dataclass(frozen=True)
class DirectionPage:
    """The page of a generator, and the objects that translate for it."""

    description: Description
    samples: Samples
    predictor: Predictor
    styles: Sequence[Tensor] = ()

    def translate(self, sample: Sample, seed: int, other: int = 0, share: float = 0.0) -> Tensor:
        """Return the (3, H, W) uint8 RGB translation of a sample. Its sides are scaled as the generator does.

        seed, other: Seeds of features, noise and style, or numbers of styles if there are several.
        share: Place between both: 0 for `seed`, 1 for `other`.
        """
        if len(self.styles) < 2:
            predictor = replace(self.predictor, seed=seed, toward=(other, share) if share else None)
        else:
            first, second = (self.styles[index % len(self.styles)] for index in (seed, other))
            predictor = replace(self.predictor, style=torch.lerp(first, second, share))
        read = padded(sample, self.samples.preprocessing)
        fake = predictor.translate(Batch.of([read.padded]))[0]
        return predictor.show_target(read.window.cut(fake)).contiguous()


class Playground:
    """Answers with the page of each direction and translates its pictures. It reads no file by the path of a request.

    first: Page at the address /. The others are at /DIRECTION/.
    open_page: Returns the page of another direction. It is called once for each.
    """

    def __init__(self, first: DirectionPage, open_page: Callable[[str], DirectionPage]) -> None:
        self.turns = Turns[Callable[[], Tensor], Tensor](lambda works: [work() for work in works])
        self._nonce = nonce = secrets.token_urlsafe(16)
        self._first, self._open_page = first, open_page
        self._pages = {first.description.direction: first}
        self._opening = threading.Lock()
        self._headers = {
            "Content-Security-Policy": f"default-src 'none'; script-src 'nonce-{nonce}' data:; style-src "
            f"'nonce-{nonce}'; img-src 'self' data: blob:; media-src blob:; connect-src 'self'; base-uri 'none'; "
            "form-action 'none'; frame-ancestors 'none'",
            "Cross-Origin-Resource-Policy": "same-origin",
            "Referrer-Policy": "no-referrer",
            "X-Model": sha256(first.description.to_json().encode()).hexdigest()[:16],
        }

    def app(self) -> Gate:
        """Return the application."""
        routes = [
            Route("/", self._show),
            Route("/samples/{number:int}", self._sample),
            Route("/translate", self._translate, methods=["POST"]),
        ]
        of_page = Router(routes, redirect_slashes=False)
        directions = [Mount(f"/{direction}", of_page) for direction in self._first.description.directions]
        router = Router([*directions, *routes], redirect_slashes=False)
        return Gate(router, MAX_BYTES, "draw on a smaller picture, or use --tile", headers=self._headers)

    def _page(self, request: Request) -> DirectionPage:
        """Return the page of an address, which may have to be loaded; raises as `open_page`."""
        direction = request.scope["root_path"].strip("/")
        if not direction:
            return self._first
        with self._opening:
            if direction not in self._pages:
                self._pages[direction] = self._open_page(direction)
        return self._pages[direction]

    def _show(self, request: Request) -> Response:
        description = self._page(request).description
        if description.directions and not request.scope["root_path"]:  # each page keeps its drawing by its address
            return RedirectResponse(f"/{description.direction}/", HTTPStatus.FOUND)
        return HTMLResponse(build_page(description, "server_engine", nonce=self._nonce))

    def _sample(self, request: Request) -> Response:
        samples = self._page(request).samples
        sample = samples.show(request.path_params["number"])
        height, width = sample.source.shape[-2:]
        sizes = {"X-Width": str(width), "X-Height": str(height)}
        return Response(samples.pack(sample), headers=sizes, media_type=BINARY)

    async def _translate(self, request: Request) -> Response:
        if request.headers.get("content-type") != BINARY:  # pages of other origins may not send it
            raise HTTPException(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, f"expected a picture as {BINARY}")
        width, height, seed = (number(request, name) for name in ("width", "height", "seed"))
        other, share = number(request, "other", "0"), min(number(request, "percent", "0"), 100) / 100
        page = await run_in_threadpool(self._page, request)
        sample = page.samples.unpack(await request.body(), width, height)
        work = self.turns.computed(partial(page.translate, sample, seed, other, share))
        translated = await unless_gone(request, work)
        return Response(translated.permute(1, 2, 0).numpy().tobytes(), media_type=BINARY)


@contextmanager
def playground(arguments: argparse.Namespace) -> Iterator[WebServer]:
    """Load a generator and yield the server of its page, which listens and does not answer yet.

    A generator of the other direction is loaded when its page is opened.

    Raises:
        UserError: The checkpoint cannot be used, a page cannot draw its sources, or the port is in use.
    """
    with tempfile.TemporaryDirectory(prefix="pairgan-") as folder:  # files of --tile
        first = open_page(arguments, arguments.direction, Path(folder))
        pages = Playground(first, lambda direction: open_page(arguments, direction, Path(folder)))
        try:
            server = WebServer(pages.app(), LOOPBACK, arguments.port or PAGE_PORT)
        except ConfigError:
            if arguments.port:
                raise
            server = WebServer(pages.app(), LOOPBACK, 0)  # any free port
        with closing(pages.turns), closing(server):
            yield server


def open_page(arguments: argparse.Namespace, direction: str | None, folder: Path) -> DirectionPage:
    """Load the generator of a direction and return its page. `folder` holds temporary files.

    Raises:
        UserError: The checkpoint cannot be used, or a page cannot draw its sources.
    """
    opened = open_generator(arguments, direction, folder)
    loaded, predictor = opened.loaded, opened.predictor
    if predictor.conditioning.source_image_channels:
        raise ConfigError(
            f"{loaded.file}: takes images together with label maps, which a page cannot draw. Translate folders: "
            f"python test.py --checkpoint {loaded.file} --input LABELS IMAGES."
        )
    samples = open_samples(loaded, arguments.split)
    if not loaded.conditioning.source_is_drawn and not samples.names:
        raise ConfigError(
            f"{loaded.file}: takes images that are not 8-bit RGB. A page shows samples of them, and there are none. "
            f"Translate a folder: python test.py --checkpoint {loaded.file} --input DIR."
        )
    names = [file.name for file in arguments.styles] if len(opened.styles) > 1 else []
    directions = directions_of(arguments.checkpoint, loaded)
    description = replace(
        describe(samples, takes_seed=predictor.takes_seed, seed=arguments.seed),
        styles=names,
        mixes_styles=bool(names) or predictor.draws_latents,
        directions=directions if len(directions) > 1 else [],
    )
    return DirectionPage(description, samples, predictor, opened.styles)
