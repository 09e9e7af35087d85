"""Translate images for other programs over HTTP.

python -m tools.serve [--checkpoint RUN] [--port N] [--host ADDRESS --token-file FILE]; see docs/serving.md.
"""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from tools.serve.command_line import DRAIN_S, LOOPBACK, TOKEN, parse_with_generator
from utils.cli import ArgumentParser, run_entry_point, whole_number
from utils.log import log_to_console, logger
from utils.signals import handling_ctrl_c, leave_at_once

PORT = 8000


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
    drain_help = f"time to answer requests that have begun when the server stops; default: {DRAIN_S}"
    add("--drain-s", type=whole_number(0), default=DRAIN_S, metavar="N", help=drain_help)
    checkpoint_help = "run, checkpoint, .safetensors, .onnx of tools.export, or an original's …_net_G.pth"
    return parse_with_generator(parser, checkpoint_help, argv)


def main(argv: Sequence[str]) -> None:
    """Serve according to the command line, until a signal stops it."""
    arguments = parse_arguments(argv)

    with handling_ctrl_c(leave_at_once):
        from tools.serve.app import service  # torch takes seconds
        from tools.serve.web import until_stopped

    log_to_console(is_main=True)
    with until_stopped(service(arguments)) as server:
        logger.info("service      %s", server.url)
        logger.info("             POST /translate, /reload; GET /model, /health, /metrics, /openapi.json")
        logger.info("             Ctrl-C stops it")
        server.run()


if __name__ == "__main__":
    sys.exit(run_entry_point(main))
