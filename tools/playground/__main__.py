"""Draw in the browser and see the translation while drawing.

python -m tools.playground [--checkpoint RUN] [--port N] [--no-browser]; see docs/playground.md.
"""

import argparse
import os
import signal
import sys
import tempfile
import webbrowser
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path

from configs.schema.sides import DIRECTIONS
from inference.load import directions_of
from inference.request import ComputeOptions, DrawingOptions, GeneratorOptions, InputOptions
from inference.requested_predictor import (
    build_predictor,
    choose_feature_sampler,
    load_requested_generator,
    original_inputs,
    prepare_device,
    report_features,
    with_tiles,
)
from inference.sampling import encode_style, sampled
from tools.playground.page import describe
from tools.playground.samples import MAX_SIDE, open_samples
from tools.playground.server import MAX_SEED, PORT, DirectionPage, PlaygroundServer
from utils.cli import ArgumentParser, run_entry_point, whole_number
from utils.device import choose_device
from utils.errors import ConfigError
from utils.log import log_to_console, logger
from utils.signals import available
from utils.signatures import accepted


def parse_arguments(argv: Sequence[str]) -> argparse.Namespace:
    """Parse the command line."""
    parser = ArgumentParser(description="Draw in the browser and see the translation while drawing.")
    add = parser.add_argument
    checkpoint_help = "run, checkpoint, .safetensors, or an original's …_net_G.pth; default: newest run"
    add("--checkpoint", type=Path, metavar="RUN_OR_FILE", help=checkpoint_help)
    add("--direction", choices=DIRECTIONS, help="of the first page, where there is a generator for each; default: AtoB")
    add("--split", metavar="NAME", help="split of the data set whose samples the page has; default: the test split")
    add("--port", type=whole_number(1, 65535), metavar="N", help=f"default: {PORT}, or another where it is in use")
    add("--no-browser", action="store_true", help="only print the address")
    edges_help = "for a file of pix2pixHD or SPADE: its last input channel holds them"
    add("--instance-edges", action="store_true", help=edges_help)
    add("--clusters", type=Path, metavar="FILE", help="feature clusters; default: feature_clusters.pt beside the run")
    add("--noise", action="store_true", help="use dropout and each image's own batch statistics, as pix2pix does")
    seed_help = "first seed of sampled features, of noise and of drawn styles"
    add("--seed", type=whole_number(0, MAX_SEED), default=0, metavar="N", help=seed_help)
    add("--style", type=Path, metavar="IMAGE", help="translate in the style of an image, where the generator has one")
    add("--weights", choices=("ema", "raw"), default="ema", help="ema: the moving average if the run has one")
    add("--opt-level", choices=("O0", "O1", "O2", "O3"), help="as for test.py")
    add("--dtype", choices=("auto", "float16", "bfloat16"), default="auto", help="low precision of O1, O2, O3")
    tile_help = "compute pictures larger than N pixels in tiles of that side"
    add("--tile", type=whole_number(1, MAX_SIDE), metavar="N", help=tile_help)
    add("--overlap", type=whole_number(0, MAX_SIDE), metavar="M", help="as for test.py")
    add("--device", choices=("auto", "cpu", "cuda"), default="auto")
    add("overrides", nargs="*", metavar="section.key=value", help="settings that replace the checkpoint's")
    arguments = parser.parse_intermixed_args(argv)
    if arguments.overlap is not None and not arguments.tile:
        parser.error("--overlap needs --tile")
    if arguments.tile and arguments.noise:
        parser.error("--tile and --noise exclude each other: leave one of them out")
    return arguments


@contextmanager
def playground(arguments: argparse.Namespace) -> Iterator[PlaygroundServer]:
    """Load a generator and yield the server of its page, which listens and does not answer yet.

    A generator of the other direction is loaded when its page is asked for.

    Raises:
        UserError: the checkpoint cannot be used, the generator takes what a page cannot draw, or the port is in use.
    """
    with tempfile.TemporaryDirectory(prefix="pairgan-") as folder:  # of --tile
        first = open_page(arguments, arguments.direction, Path(folder))
        server = PlaygroundServer(arguments.port, first, lambda way: open_page(arguments, way, Path(folder)))
        try:
            yield server
        finally:
            server.stop()


def open_page(arguments: argparse.Namespace, direction: str | None, folder: Path) -> DirectionPage:
    """Load the generator of a direction and return what the server needs of it; folder: of temporary files.

    Raises:
        UserError: the checkpoint cannot be used, or the generator takes what a page cannot draw.
    """
    options = vars(arguments) | {"direction": direction}
    drawing = DrawingOptions(**accepted(DrawingOptions, options))
    compute = ComputeOptions(**accepted(ComputeOptions, options))
    device = choose_device(compute.device, option="--device ")
    prepare_device(device, is_of_one_size=False)
    loaded = load_requested_generator(
        GeneratorOptions(**accepted(GeneratorOptions, options)),
        original_inputs(drawing.clusters, has_instances=arguments.instance_edges),
    )
    feature_sampler = choose_feature_sampler(loaded, drawing)
    style = encode_style(loaded, drawing.style)
    predictor = build_predictor(loaded, device, compute, drawing, feature_sampler=feature_sampler, style=style)
    conditioning = predictor.conditioning
    if feature_sampler is None and conditioning.features != "none":
        raise ConfigError(
            f"{loaded.file}: takes instance features, which a drawing does not have. Create clusters to draw them from "
            f"with python -m tools.cluster_features --checkpoint {loaded.file}."
        )
    if conditioning.source_image_channels:
        raise ConfigError(
            f"{loaded.file}: takes images beside label maps, which a page cannot draw. Translate folders: "
            f"python test.py --checkpoint {loaded.file} --input LABELS IMAGES."
        )
    report_features(loaded, predictor, drawing, InputOptions())
    samples = open_samples(sampled(loaded, feature_sampler), arguments.split)
    if not samples.are_drawn and not samples.names:
        raise ConfigError(
            f"{loaded.file}: takes images that are not 8-bit RGB, of which a page shows samples, and there are none. "
            f"Translate a folder: python test.py --checkpoint {loaded.file} --input DIR."
        )
    takes_seed = feature_sampler is not None or arguments.noise or predictor.takes_seed
    description = describe(samples, takes_seed=takes_seed, seed=arguments.seed)
    directions = directions_of(arguments.checkpoint, loaded)
    if len(directions) > 1:
        description = replace(description, directions=directions)
    predictor = with_tiles(predictor, loaded, compute, folder)
    return DirectionPage(description, samples, predictor)


@contextmanager
def until_signal() -> Iterator[None]:
    """End the block without an error at Ctrl-C, SIGTERM, or SIGHUP unless nohup has it ignored.

    The handlers stay: a second signal interrupts what is done after the block.
    """
    for kind in available("SIGINT", "SIGTERM", "SIGHUP"):
        if kind.name != "SIGHUP" or signal.getsignal(kind) is not signal.SIG_IGN:
            signal.signal(kind, signal.default_int_handler)
    with suppress(KeyboardInterrupt):
        yield


def _has_screen() -> bool:
    """Return whether a browser can open a window; Python would start one in the terminal otherwise."""
    return sys.platform != "linux" or any(os.environ.get(name) for name in ("DISPLAY", "WAYLAND_DISPLAY"))


def main(argv: Sequence[str]) -> None:
    """Serve the page according to the command line, until a signal stops it; a second one does not wait."""
    arguments = parse_arguments(argv)
    log_to_console(is_main=True)
    try:
        with playground(arguments) as server:
            logger.info("playground   %s", server.url)
            logger.info("             Ctrl-C stops it")
            with until_signal():
                if not arguments.no_browser and _has_screen():
                    webbrowser.open(server.url)
                server.serve_forever(poll_interval=0.2)
    except KeyboardInterrupt:
        sys.stderr.write("interrupted\n")
        sys.stderr.flush()
        os._exit(128 + signal.SIGINT)  # Python itself would wait for the thread that translates
    logger.info("stopped")


if __name__ == "__main__":
    sys.exit(run_entry_point(main))
