"""The server of the playground: the page, its samples and translations, for this machine alone."""

import secrets
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from hashlib import sha256
from http import HTTPStatus

import torch
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.routing import Mount, Route, Router
from torch import Tensor

from data.batch import Batch, Sample
from inference.padding import padded
from inference.predictor import Predictor
from inference.sampling import StyleImage
from tools.playground.page import Description, build_page
from tools.playground.samples import MAX_BYTES, Samples
from tools.serve.gate import Gate, number, unless_gone
from tools.serve.turns import Turns

BINARY = "application/octet-stream"


@dataclass(frozen=True)
class DirectionPage:
    """The page of a generator: what it shows, and what translates for it."""

    description: Description
    samples: Samples
    predictor: Predictor
    styles: Sequence[StyleImage] = ()

    def translate(self, sample: Sample, seed: int, other: int = 0, share: float = 0.0) -> Tensor:
        """Return (3, H, W) uint8 RGB to look at, of the size of the sample times the generator's scale.

        It is between two seeds of features, noise and style; of several styles, between two of these.
        share: 0 at the first, 1 at the other.
        """
        if len(self.styles) < 2:
            predictor = replace(self.predictor, seed=seed, toward=(other, share) if share else None)
        else:
            first, second = (self.styles[index % len(self.styles)] for index in (seed, other))
            between = replace(first, style=torch.lerp(first.style, second.style, share))
            predictor = replace(self.predictor, style=between)
        read = padded(sample, self.samples.preprocessing)
        fake = predictor.translate(Batch.of([read.padded]))[0]
        return predictor.show_target(read.window.cut(fake)).contiguous()


class Playground:
    """Answers with the page of each direction and translates its pictures. It reads no file by the path of a request.

    first: what is at the address /; the others are at /DIRECTION/.
    open_page: returns that of another direction of the first one's, once.
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
            "X-Content-Type-Options": "nosniff",
            "Referrer-Policy": "no-referrer",
            "Cache-Control": "no-store",
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
        ways = [Mount(f"/{way}", of_page) for way in self._first.description.directions]
        router = Router([*ways, *routes], redirect_slashes=False)
        return Gate(router, MAX_BYTES, "draw on a smaller picture, or use --tile", headers=self._headers)

    def _page(self, request: Request) -> DirectionPage:
        """Return what is at the address of a direction; it may be loaded, which raises as `open_page`."""
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
        if request.headers.get("content-type") != BINARY:  # pages of other origins cannot send it without being asked
            raise HTTPException(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, f"expected a picture as {BINARY}")
        width, height, seed = (number(request, name) for name in ("width", "height", "seed"))
        other, share = number(request, "other", "0"), min(number(request, "percent", "0"), 100) / 100
        page = await run_in_threadpool(self._page, request)
        sample = page.samples.unpack(await request.body(), width, height)
        work = self.turns.computed(partial(page.translate, sample, seed, other, share))
        translated = await unless_gone(request, work)
        return Response(translated.permute(1, 2, 0).numpy().tobytes(), media_type=BINARY)
