"""Options that the command lines of the service and of the playground share. Imports nothing slow."""

import argparse
from collections.abc import Sequence
from pathlib import Path

from inference.request import add_generator_options, contradictions
from utils.cli import ArgumentParser
from utils.signatures import accepted

LOOPBACK = "127.0.0.1"
DRAIN_S = 8  # Docker kills a container 10 s after it has asked it to stop
MAX_SEED = 2**31 - 1
TOKEN = "PAIRGAN_TOKEN"
"""Environment variable that may hold the token of the service."""


def server_parser(description: str, checkpoint: str) -> ArgumentParser:
    """Return a parser with the options of a generator, and defaults for the options of the service.

    checkpoint: Help text of --checkpoint.
    """
    parser = ArgumentParser(description=description)
    parser.set_defaults(host=LOOPBACK, batch_size=8, max_bytes=2**26, max_pixels=2**24, max_waiting=64)
    parser.set_defaults(timeout_s=60, drain_s=DRAIN_S)
    add_generator_options(parser, checkpoint, most_seed=MAX_SEED)
    add = parser.add_argument
    style_help = "translate in the style of an image; several times: styles to choose from by number"
    add("--style", type=Path, action="append", dest="styles", default=[], metavar="IMAGE", help=style_help)
    edges_help = "for a file of pix2pixHD or SPADE: its last input channel holds them"
    add("--instance-edges", action="store_true", help=edges_help)
    return parser


def parse(parser: ArgumentParser, argv: Sequence[str]) -> argparse.Namespace:
    """Parse a command line, and refuse options that exclude each other."""
    arguments = parser.parse_intermixed_args(argv)
    problems = contradictions(**accepted(contradictions, vars(arguments)))
    if problem := next((problem for problem, is_there in problems.items() if is_there), None):
        parser.error(problem)
    return arguments
