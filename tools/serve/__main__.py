"""Start an HTTP service that translates images.

python -m tools.serve [--checkpoint RUN] [--port N] [--host ADDRESS --token-file FILE]; see docs/serving.md.
"""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from tools.serve.command_line import TOKEN, parse, server_parser
from utils.cli import run_entry_point, whole_number
from utils.log import log_to_console, logger
from utils.signals import handling_ctrl_c, leave_at_once


def parse_arguments(argv: Sequence[str]) -> argparse.Namespace:
    """Parse the command line."""
    checkpoint_help = "run folder, checkpoint, .safetensors, or …_net_G.pth of an original project"
    parser = server_parser("Translate images for other programs over HTTP.", checkpoint_help)
    add = parser.add_argument
    add("--host", metavar="ADDRESS", help="address to listen on; default: 127.0.0.1; other machines need a token")
    port_help = "port to listen on, or 0 for any free port; default: %(default)s"
    add("--port", type=whole_number(0, 65535), default=8000, metavar="N", help=port_help)
    token_help = f"file with the token that clients must send (Authorization: Bearer); default: variable {TOKEN}"
    add("--token-file", type=Path, metavar="FILE", help=token_help)
    for option, least, what in (
        ("--batch-size", 1, "maximum batch size; images of the same size are translated together"),
        ("--max-bytes", 1, "maximum size of a request in bytes"),
        ("--max-pixels", 1, "maximum number of pixels of an image"),
        ("--max-waiting", 1, "maximum number of requests that wait or are translated; further requests get status 503"),
        ("--timeout-s", 1, "a request that waits longer than N seconds gets status 503"),
        ("--drain-s", 0, "seconds that current requests get to finish when the server stops"),
    ):
        add(option, type=whole_number(least), metavar="N", help=f"{what}; default: %(default)s")
    arguments = parse(parser, argv)
    arguments.ports = [arguments.port]
    return arguments


def main(argv: Sequence[str]) -> None:
    """Serve translations until a signal arrives."""
    arguments = parse_arguments(argv)

    with handling_ctrl_c(leave_at_once):
        from tools.serve.app import Service, serving  # importing torch takes seconds
        from tools.serve.gate import read_token
        from tools.serve.web import until_stopped

    log_to_console(is_main=True)
    token = read_token(arguments.token_file, arguments.host)
    with until_stopped(serving(Service, arguments, token)) as server:
        logger.info("service      %s", server.url)
        logger.info("             POST /translate, /reload; GET /model, /health")
        logger.info("             Ctrl-C stops the server")
        server.run()


if __name__ == "__main__":
    sys.exit(run_entry_point(main))
