"""Draw in the browser and see the translation while drawing.

python -m tools.playground [--checkpoint RUN] [--port N] [--no-browser]; see docs/playground.md.
"""

import argparse
import os
import sys
import tempfile
import webbrowser
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path

from inference.load import directions_of
from tools.playground.page import describe
from tools.playground.samples import open_samples
from tools.playground.server import DirectionPage, Playground
from tools.serve.generator import open_generator, parse_with_generator
from tools.serve.web import LOOPBACK, WebServer, until_stopped
from utils.cli import ArgumentParser, run_entry_point, whole_number
from utils.errors import ConfigError
from utils.log import log_to_console, logger

PORT = 8765


def parse_arguments(argv: Sequence[str]) -> argparse.Namespace:
    """Parse the command line."""
    parser = ArgumentParser(description="Draw in the browser and see the translation while drawing.")
    add = parser.add_argument
    add("--split", metavar="NAME", help="split of the data set whose samples the page has; default: the test split")
    add("--port", type=whole_number(1, 65535), metavar="N", help=f"default: {PORT}, or another where it is in use")
    add("--no-browser", action="store_true", help="only print the address")
    checkpoint_help = "run, checkpoint, .safetensors, or an original's …_net_G.pth"
    return parse_with_generator(parser, checkpoint_help, argv)


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
            server = WebServer(pages.app(), pages.turns, LOOPBACK, arguments.port or PORT)
        except ConfigError:
            if arguments.port:
                raise
            server = WebServer(pages.app(), pages.turns, LOOPBACK, 0)  # any that is free
        with closing(server):
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


def main(argv: Sequence[str]) -> None:
    """Serve the page according to the command line, until a signal stops it."""
    arguments = parse_arguments(argv)
    log_to_console(is_main=True)
    with until_stopped(playground(arguments)) as server:
        logger.info("playground   %s", server.url)
        logger.info("             Ctrl-C stops it")
        # without a screen Python would start a browser in the terminal
        has_screen = sys.platform != "linux" or any(os.environ.get(name) for name in ("DISPLAY", "WAYLAND_DISPLAY"))
        if has_screen and not arguments.no_browser:
            webbrowser.open(server.url)
        server.run()


if __name__ == "__main__":
    sys.exit(run_entry_point(main))
