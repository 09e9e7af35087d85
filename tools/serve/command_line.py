"""Command-line options of both the service and the playground. Do not import slow modules such as torch here."""

import argparse
from collections.abc import Sequence
from pathlib import Path

from inference.request import add_generator_options, contradictions
from utils.cli import ArgumentParser
from utils.signatures import accepted

LOOPBACK = "127.0.0.1"
DRAIN_S = 8  # Docker kills a container 10 s after the stop signal
MAX_SEED = 2**31 - 1
TOKEN = "PAIRGAN_TOKEN"  # environment variable with the token of the service


def server_parser(description: str, checkpoint: str) -> ArgumentParser:
    """Return a parser with the shared options. It also sets defaults for options that only the service has.

    checkpoint: Help text of --checkpoint.
    """
    parser = ArgumentParser(description=description)
    parser.set_defaults(host=LOOPBACK, batch_size=8, max_bytes=2**26, max_pixels=2**24, max_waiting=64)
    parser.set_defaults(timeout_s=60, drain_s=DRAIN_S)
    add_generator_options(parser, checkpoint, most_seed=MAX_SEED)
    add = parser.add_argument
    style_help = "image that gives its style to translations; repeat the option to offer several styles"
    add("--style", type=Path, action="append", dest="styles", default=[], metavar="IMAGE", help=style_help)
    edges_help = "the last input channel holds instance edges; only for weights files of pix2pixHD and SPADE"
    add("--instance-edges", action="store_true", help=edges_help)
    return parser


def parse(parser: ArgumentParser, argv: Sequence[str]) -> argparse.Namespace:
    """Parse a command line. Exit with an error if options contradict each other."""
    arguments = parser.parse_intermixed_args(argv)
    problems = contradictions(**accepted(contradictions, vars(arguments)))
    if problem := next((problem for problem, is_there in problems.items() if is_there), None):
        parser.error(problem)
    return arguments
