"""Translate images with a trained generator: python test.py [--checkpoint RUN] [--input DIR] [--output DIR]."""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from entry_point import run_entry_point


def parse_arguments(argv: Sequence[str]) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description="Translate images with a trained generator.")
    add = parser.add_argument
    add(
        "--checkpoint",
        type=Path,
        metavar="RUN_OR_FILE",
        help="run folder, checkpoint, or weights of pix2pixHD or pix2pix (…_net_G.pth); default: newest in runs/",
    )
    add("--input", type=Path, metavar="DIR", help="folder of sources, without targets; default: test split")
    add("--instances", type=Path, metavar="DIR", help="folder of instance maps for --input")
    add("--targets", type=Path, metavar="DIR", help="folder of targets for --input, to compare with")
    add("--features", choices=("sampled", "given"), help="instance features: drawn from clusters, or the samples' own")
    clusters_help = "clusters to draw from; default: feature_clusters.pt beside the checkpoint"
    add("--clusters", type=Path, metavar="FILE", help=clusters_help)
    add("--feature-maps", type=Path, metavar="DIR", help="folder of precomputed feature maps for --input")
    add("--noise", action="store_true", help="dropout and each image's own batch statistics, as pix2pix tests")
    add("--seed", type=int, default=0, metavar="N", help="of what is drawn: looks from clusters, and noise")
    add("--split", metavar="NAME", help="split of the data set, where there is no --input")
    add("--output", type=Path, metavar="DIR", help="default: results/RUN/SPLIT_stepSTEP")
    add("--weights", choices=("ema", "raw"), default="ema", help="ema: the moving average, where the run has one")
    levels = "float32, default for the originals' files; autocast; weights cast once, the default; norms too"
    add("--opt-level", choices=("O0", "O1", "O2", "O3"), help=levels)
    add("--dtype", choices=("auto", "float16", "bfloat16"), default="auto", help="low precision of O1, O2, O3")
    compile_help = "fuse the layers, a quarter of a minute before the first image; auto: on a CPU, for many images"
    add("--compile", choices=("auto", "on", "off"), default="auto", help=compile_help)
    add("--batch-size", type=_positive, default=1, metavar="N")
    add("--device", choices=("auto", "cpu", "cuda"), default="auto")
    add("overrides", nargs="*", metavar="section.key=value", help="settings in place of the checkpoint's")
    arguments = parser.parse_intermixed_args(argv)
    if arguments.input is None and (arguments.instances or arguments.targets or arguments.feature_maps):
        parser.error("--instances, --targets and --feature-maps go with --input")
    if arguments.noise and arguments.batch_size > 1:
        parser.error("--noise takes one image at a time: leave --batch-size out")
    if arguments.seed < 0:
        parser.error(f"--seed {arguments.seed}: expected a whole number from 0")
    if arguments.input is not None and arguments.split:
        parser.error("--split goes with the data set, not with --input")
    return arguments


def _positive(text: str) -> int:
    if not text.isdecimal() or int(text) == 0:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number above 0")
    return int(text)


def main(argv: Sequence[str]) -> None:
    """Parse the command line and do what it says."""
    arguments = parse_arguments(argv)

    from inference import Request, translate  # torch takes seconds

    translate(Request(**vars(arguments)))


if __name__ == "__main__":
    sys.exit(run_entry_point(main))
