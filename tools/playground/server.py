"""The translation service with a page to draw on. It answers only this machine."""

import argparse
import secrets
from dataclasses import replace
from hashlib import sha256
from pathlib import Path

from starlette.requests import Request
from starlette.responses import HTMLResponse, Response
from starlette.routing import BaseRoute, Route

from tools.playground.page import build_page, describe, open_samples, to_json
from tools.serve.app import Service
from tools.serve.file_processes import FileProcesses
from tools.serve.translation import Translator, open_translator
from utils.errors import ConfigError


class Playground(Service):
    """The translation service, with the playground's page and samples as additional addresses."""

    def __init__(self, arguments: argparse.Namespace, folder: Path, processes: FileProcesses) -> None:
        super().__init__(arguments, folder, processes)
        translator = self.translator
        self._samples = open_samples(translator.loaded, arguments.split)
        styles = [file.name for file in arguments.styles] if len(translator.styles) > 1 else []
        description = describe(
            self._samples,
            takes_seed=translator.predictor.takes_seed,
            seed=arguments.seed,
            styles=styles,
            mixes_styles=bool(styles) or translator.predictor.draws_latents,
        )
        nonce = secrets.token_urlsafe(16)
        self._page = build_page(description, "server_engine", nonce=nonce)
        self.headers = {
            "Content-Security-Policy": f"default-src 'none'; script-src 'nonce-{nonce}' data:; style-src "
            f"'nonce-{nonce}'; img-src 'self' data: blob:; media-src blob:; connect-src 'self'; base-uri 'none'; "
            "form-action 'none'; frame-ancestors 'none'",
            "Cross-Origin-Resource-Policy": "same-origin",
            "Referrer-Policy": "no-referrer",
            "X-Model": sha256(to_json(description).encode()).hexdigest()[:16],
        }

    def open_translator(self) -> Translator:
        """Load the newest checkpoint.

        Raises:
            UserError: The checkpoint cannot be used, or the user cannot draw its sources.
        """
        translator = open_translator(self.arguments, self.folder, accepts_features=False)
        loaded = translator.loaded
        if not loaded.conditioning.source_is_drawn:
            raise ConfigError(
                f"{loaded.file}: takes images that are not 8-bit RGB, which a page cannot draw. To translate a folder, "
                f"run python test.py --checkpoint {loaded.file} --input DIR."
            )
        facts = replace(loaded.data_facts, divided_classes=None)  # the page sends instance ids
        return replace(translator, files=replace(translator.files, facts=facts))

    def routes(self) -> list[BaseRoute]:
        """Return the addresses of the service, the page and its samples."""
        page = Route("/", lambda _: HTMLResponse(self._page))
        return [*super().routes(), page, Route("/samples/{number:int}", self._sample)]

    def _sample(self, request: Request) -> Response:
        sample = self._samples.read(request.path_params["number"])
        height, width = sample.source.shape[-2:]
        sizes = {"X-Width": str(width), "X-Height": str(height)}
        return Response(self._samples.pack(sample), headers=sizes, media_type="application/octet-stream")
