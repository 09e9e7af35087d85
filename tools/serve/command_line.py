"""Options that the command lines of both servers share. Imports nothing slow."""

import argparse
from collections.abc import Sequence
from pathlib import Path

from inference.request import add_generator_options, contradictions
from utils.cli import ArgumentParser
from utils.signatures import accepted

LOOPBACK = "127.0.0.1"
DRAIN_S = 8  # Docker kills a container 10 s after it has asked it to stop
MAX_SEED = 2**31 - 1
PAGE_PORT = 8765  # default port of the playground, unless it is in use
TOKEN = "PAIRGAN_TOKEN"
"""Environment variable that may hold the token of the service."""


def parse_with_generator(parser: ArgumentParser, checkpoint: str, argv: Sequence[str]) -> argparse.Namespace:
    """Add the options of a generator to a parser, and parse a command line.

    checkpoint: Help text of --checkpoint.
    """
    add_generator_options(parser, checkpoint, most_seed=MAX_SEED)
    style_help = "translate in the style of an image, if the generator has one; several: to choose from on a page"
    add = parser.add_argument
    add("--style", type=Path, action="append", dest="styles", default=[], metavar="IMAGE", help=style_help)
    edges_help = "for a file of pix2pixHD or SPADE: its last input channel holds them"
    add("--instance-edges", action="store_true", help=edges_help)
    arguments = parser.parse_intermixed_args(argv)
    problems = contradictions(**accepted(contradictions, vars(arguments)))
    if problem := next((problem for problem, is_there in problems.items() if is_there), None):
        parser.error(problem)
    return arguments
