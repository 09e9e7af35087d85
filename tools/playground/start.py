"""The start of the playground: its generators, its pages and its address."""

import argparse
import tempfile
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path

from inference.load import directions_of
from tools.playground.page import describe
from tools.playground.samples import open_samples
from tools.playground.server import DirectionPage, Playground
from tools.serve.command_line import LOOPBACK, PAGE_PORT
from tools.serve.generator import open_generator
from tools.serve.web import WebServer
from utils.errors import ConfigError


@contextmanager
def playground(arguments: argparse.Namespace) -> Iterator[WebServer]:
    """Load a generator and yield the server of its page, which listens and does not answer yet.

    A generator of the other direction is loaded when its page is asked for.

    Raises:
        UserError: the checkpoint cannot be used, the generator takes what a page cannot draw, or the port is in use.
    """
    with tempfile.TemporaryDirectory(prefix="pairgan-") as folder:  # of --tile
        first = open_page(arguments, arguments.direction, Path(folder))
        pages = Playground(first, lambda way: open_page(arguments, way, Path(folder)))
        try:
            server = WebServer(pages.app(), LOOPBACK, arguments.port or PAGE_PORT)
        except ConfigError:
            if arguments.port:
                raise
            server = WebServer(pages.app(), LOOPBACK, 0)  # any that is free
        with closing(pages.turns), closing(server):
            yield server


def open_page(arguments: argparse.Namespace, direction: str | None, folder: Path) -> DirectionPage:
    """Load the generator of a direction and return what the server needs of it; folder: of temporary files.

    Raises:
        UserError: the checkpoint cannot be used, or the generator takes what a page cannot draw.
    """
    opened = open_generator(arguments, direction, folder)
    loaded, predictor = opened.loaded, opened.predictor
    if predictor.conditioning.source_image_channels:
        raise ConfigError(
            f"{loaded.file}: takes images beside label maps, which a page cannot draw. Translate folders: "
            f"python test.py --checkpoint {loaded.file} --input LABELS IMAGES."
        )
    samples = open_samples(loaded, arguments.split)
    if not loaded.conditioning.source_is_drawn and not samples.names:
        raise ConfigError(
            f"{loaded.file}: takes images that are not 8-bit RGB, of which a page shows samples, and there are none. "
            f"Translate a folder: python test.py --checkpoint {loaded.file} --input DIR."
        )
    names = [style.file.name for style in opened.styles] if len(opened.styles) > 1 else []
    directions = directions_of(arguments.checkpoint, loaded)
    description = replace(
        describe(samples, takes_seed=opened.takes_seed, seed=arguments.seed),
        styles=names,
        mixes_styles=bool(names) or predictor.takes_seed,
        directions=directions if len(directions) > 1 else [],
    )
    return DirectionPage(description, samples, predictor, opened.styles)
