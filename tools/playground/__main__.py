"""Start a web page that translates a drawing while the user draws.

python -m tools.playground [--checkpoint RUN] [--port N] [--no-browser]; see docs/playground.md.
"""

import argparse
import os
import sys
import webbrowser
from collections.abc import Sequence

from tools.serve.command_line import parse, server_parser
from utils.cli import run_entry_point, whole_number
from utils.log import log_to_console, logger
from utils.signals import handling_ctrl_c, leave_at_once

PORT = 8765


def parse_arguments(argv: Sequence[str]) -> argparse.Namespace:
    """Parse the command line."""
    checkpoint_help = "run folder, checkpoint, .safetensors, or …_net_G.pth of an original project"
    parser = server_parser("Draw in the browser and see the translation while drawing.", checkpoint_help)
    add = parser.add_argument
    add("--split", metavar="NAME", help="split of the samples on the page; default: the test split")
    add("--port", type=whole_number(1, 65535), metavar="N", help=f"default: {PORT}, or a free port if {PORT} is in use")
    add("--no-browser", action="store_true", help="do not open a browser")
    arguments = parse(parser, argv)
    arguments.ports = [arguments.port] if arguments.port else [PORT, 0]
    return arguments


def main(argv: Sequence[str]) -> None:
    """Serve the page until a signal arrives."""
    arguments = parse_arguments(argv)

    with handling_ctrl_c(leave_at_once):
        from tools.playground.server import Playground  # importing torch takes seconds
        from tools.serve.app import serving
        from tools.serve.web import until_stopped

    log_to_console(is_main=True)
    with until_stopped(serving(Playground, arguments, token=None)) as server:
        logger.info("playground   %s", server.url)
        logger.info("             Ctrl-C stops the server")
        # Without a display, Python would start a text browser in the terminal.
        has_screen = sys.platform != "linux" or any(os.environ.get(name) for name in ("DISPLAY", "WAYLAND_DISPLAY"))
        if has_screen and not arguments.no_browser:
            webbrowser.open(server.url)
        server.run()


if __name__ == "__main__":
    sys.exit(run_entry_point(main))
