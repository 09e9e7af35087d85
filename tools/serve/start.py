"""The start of the service: its token, its generator and its address."""

import argparse
import ipaddress
import os
import tempfile
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path

from data.files.size_guard import pixels_allowed
from tools.serve.app import Limits, Service
from tools.serve.command_line import TOKEN
from tools.serve.file_processes import file_processes
from tools.serve.translation import open_translator
from tools.serve.web import WebServer
from utils.errors import ConfigError
from utils.signatures import accepted

LEAST_TOKEN = 16  # characters


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
        file_processes(arguments.max_pixels) as files,
    ):
        limits = Limits(**accepted(Limits, vars(arguments)))
        answers = Service(lambda: open_translator(arguments, Path(folder)), files, limits, arguments.seed)
        with (
            closing(answers),
            closing(WebServer(answers.app(token), arguments.host, arguments.port, arguments.drain_s)) as server,
        ):
            yield server
