"""Translate images for other programs over HTTP.

python -m tools.serve [--checkpoint RUN] [--port N] [--host ADDRESS --token-file FILE]; see docs/serving.md.
"""

import argparse
import ipaddress
import os
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from pathlib import Path

from data.files.size_guard import pixels_allowed
from tools.serve.app import Limits, Service
from tools.serve.generator import parse_with_generator
from tools.serve.translation import open_translator
from tools.serve.web import LOOPBACK, WebServer, until_stopped
from utils.cli import ArgumentParser, run_entry_point, whole_number
from utils.errors import ConfigError
from utils.log import log_to_console, logger
from utils.signatures import accepted
from utils.worker_threads import worker_threads

PORT = 8000
TOKEN = "PAIRGAN_TOKEN"
LEAST_TOKEN = 16  # characters


def parse_arguments(argv: Sequence[str]) -> argparse.Namespace:
    """Parse the command line."""
    parser = ArgumentParser(description="Translate images for other programs over HTTP.")
    add = parser.add_argument
    add("--host", default=LOOPBACK, metavar="ADDRESS", help="default: this machine alone; others need a token")
    add("--port", type=whole_number(0, 65535), default=PORT, metavar="N", help=f"default: {PORT}; 0: any that is free")
    token_help = f"file of the token that requests bring as Authorization: Bearer; or in the variable {TOKEN}"
    add("--token-file", type=Path, metavar="FILE", help=token_help)
    add("--batch-size", type=whole_number(1), default=8, metavar="N", help="images of one size translated together")
    add("--max-bytes", type=whole_number(1), default=2**26, metavar="N", help="of a request; default: %(default)s")
    add("--max-pixels", type=whole_number(1), default=2**24, metavar="N", help="of an image; default: %(default)s")
    add("--max-waiting", type=whole_number(1), default=64, metavar="N", help="translations under way; more get 503")
    add("--timeout-s", type=whole_number(1), default=60, metavar="N", help="of a translation; default: %(default)s")
    checkpoint_help = "run, checkpoint, .safetensors, .onnx of tools.export, or an original's …_net_G.pth"
    return parse_with_generator(parser, checkpoint_help, argv)


def read_token(file: Path | None, host: str) -> str | None:
    """Return the token of a file or of the environment; None where there is none and only this machine is listened to.

    Raises:
        ConfigError: there is none where others can ask, or it is short or no text.
    """
    origin = str(file) if file else TOKEN
    token = file.read_text(encoding="utf-8", errors="replace").strip() if file else os.environ.get(TOKEN)
    if token is None:
        if not _is_loopback(host):
            raise ConfigError(f"--host {host}: others could use the server. Add --token-file FILE, or set {TOKEN}.")
        return None
    if len(token) < LEAST_TOKEN or not token.isascii() or not token.isprintable() or " " in token:
        expected = f"expected a word of {LEAST_TOKEN} or more ASCII characters"
        raise ConfigError(f"{origin}: {expected}. Make one: python -c 'import secrets; print(secrets.token_urlsafe())'")
    return token


def _is_loopback(host: str) -> bool:
    with suppress(ValueError):
        return ipaddress.ip_address(host).is_loopback
    return host == "localhost"


@contextmanager
def service(arguments: argparse.Namespace) -> Iterator[WebServer]:
    """Load a generator and yield its server, which listens and does not answer yet.

    Raises:
        UserError, OSError: the checkpoint, the token or the address cannot be used.
    """
    token = read_token(arguments.token_file, arguments.host)
    with (
        tempfile.TemporaryDirectory(prefix="pairgan-") as folder,
        pixels_allowed(arguments.max_pixels),
        worker_threads() as files,
    ):
        translator = open_translator(arguments, Path(folder))
        limits = Limits(**accepted(Limits, vars(arguments)))
        answers = Service(translator, files, limits, arguments.seed)
        with closing(WebServer(answers.app(token), answers.turns, arguments.host, arguments.port)) as server:
            yield server


def main(argv: Sequence[str]) -> None:
    """Serve according to the command line, until a signal stops it."""
    arguments = parse_arguments(argv)
    log_to_console(is_main=True)
    with until_stopped(service(arguments)) as server:
        logger.info("service      %s", server.url)
        logger.info("             POST /translate; GET /model, /health, /metrics, /openapi.json; Ctrl-C stops it")
        server.run()


if __name__ == "__main__":
    sys.exit(run_entry_point(main))
