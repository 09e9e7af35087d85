"""The generator that a server translates with: its options, and what it loads by them, as test.py does."""

import argparse
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from configs.schema.sides import DIRECTIONS
from inference.load import LoadedGenerator
from inference.predictor import Predictor
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
from inference.sampling import StyleImage, encode_style, sampled
from tools.serve.gate import MAX_SEED
from utils.cli import ArgumentParser, whole_number
from utils.device import choose_device
from utils.errors import ConfigError
from utils.signatures import accepted


def add_generator_options(parser: ArgumentParser) -> None:
    """Add the options of a generator and of how it computes to a command line."""
    add = parser.add_argument
    add("--direction", choices=DIRECTIONS, help="where there is a generator for each; default: AtoB")
    edges_help = "for a file of pix2pixHD or SPADE: its last input channel holds them"
    add("--instance-edges", action="store_true", help=edges_help)
    add("--clusters", type=Path, metavar="FILE", help="feature clusters; default: feature_clusters.pt beside the run")
    add("--noise", action="store_true", help="use dropout and each image's own batch statistics, as pix2pix does")
    seed_help = "seed of sampled features, of noise and of drawn styles, where a request names none"
    add("--seed", type=whole_number(0, MAX_SEED), default=0, metavar="N", help=seed_help)
    style_help = "translate in the style of an image, where the generator has one; several times: styles to choose from"
    add("--style", type=Path, action="append", dest="styles", default=[], metavar="IMAGE", help=style_help)
    add("--weights", choices=("ema", "raw"), default="ema", help="ema: the moving average if the run has one")
    add("--opt-level", choices=("O0", "O1", "O2", "O3"), help="as for test.py")
    add("--dtype", choices=("auto", "float16", "bfloat16"), default="auto", help="low precision of O1, O2, O3")
    add("--tile", type=whole_number(1), metavar="N", help="compute pictures larger than N pixels in tiles of that side")
    add("--overlap", type=whole_number(0), metavar="M", help="as for test.py")
    add("--device", choices=("auto", "cpu", "cuda"), default="auto")
    add("overrides", nargs="*", metavar="section.key=value", help="settings that replace the checkpoint's")


def check_generator_options(parser: ArgumentParser, arguments: argparse.Namespace) -> None:
    """End the program where options exclude each other."""
    if arguments.overlap is not None and not arguments.tile:
        parser.error("--overlap needs --tile")
    if arguments.tile and arguments.noise:
        parser.error("--tile and --noise exclude each other: leave one of them out")


@dataclass(frozen=True)
class OpenedGenerator:
    """A generator that is ready to translate.

    loaded: with the settings that samples are read with. takes_seed: whether a translation depends on a seed.
    styles: of the images of --style, of which `predictor` has the first.
    """

    loaded: LoadedGenerator
    predictor: Predictor
    takes_seed: bool
    styles: Sequence[StyleImage]


def open_generator(
    arguments: argparse.Namespace, direction: str | None, folder: Path, *, gets_feature_maps: bool = False
) -> OpenedGenerator:
    """Load the generator of a direction.

    folder: of temporary files. gets_feature_maps: whether precomputed features may come with a source.

    Raises:
        UserError: the checkpoint cannot be used, or the generator takes instance features and has no clusters.
    """
    options = vars(arguments) | {"direction": direction}
    drawing = DrawingOptions(**accepted(DrawingOptions, options))
    compute = ComputeOptions(**accepted(ComputeOptions, options))
    device = choose_device(compute.device, option="--device ")
    prepare_device(device, is_of_one_size=False)
    original = original_inputs(drawing.clusters, has_instances=arguments.instance_edges)
    loaded = load_requested_generator(GeneratorOptions(**accepted(GeneratorOptions, options)), original)
    feature_sampler = choose_feature_sampler(loaded, drawing)
    styles = [style for file in arguments.styles if (style := encode_style(loaded, file))]
    first = styles[0] if styles else None
    predictor = build_predictor(loaded, device, compute, drawing, feature_sampler=feature_sampler, style=first)
    can_get = ("none", "precomputed") if gets_feature_maps else ("none",)
    if feature_sampler is None and predictor.conditioning.features not in can_get:
        raise ConfigError(
            f"{loaded.file}: takes instance features, which a source does not have. Create clusters to draw them from "
            f"with python -m tools.cluster_features --checkpoint {loaded.file}."
        )
    report_features(loaded, predictor, drawing, InputOptions())
    takes_seed = feature_sampler is not None or drawing.noise or predictor.takes_seed
    predictor = with_tiles(predictor, loaded, compute, folder)
    return OpenedGenerator(sampled(loaded, feature_sampler), predictor, takes_seed, styles)
