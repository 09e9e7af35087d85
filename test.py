"""Translate images with a trained generator: python test.py [--checkpoint RUN] [--input PATH …] [--output DIR]."""

import argparse
import re
import sys
from collections.abc import Sequence
from pathlib import Path

from utils.cli import ArgumentParser, run_entry_point


def parse_arguments(argv: Sequence[str]) -> argparse.Namespace:
    """The command line."""
    parser = ArgumentParser(description="Translate images with a trained generator.")
    add = parser.add_argument
    checkpoint_help = "run, checkpoint, .safetensors, or pix2pixHD's or pix2pix's …_net_G.pth; default: newest run"
    add("--checkpoint", type=Path, metavar="RUN_OR_FILE", help=checkpoint_help)
    input_help = "folders or files of sources; -: a list of them from standard input; default: the test split"
    add("--input", type=Path, nargs="+", action="extend", default=[], metavar="PATH", help=input_help)
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
    size_help = "own: as it is, the default with --input; trained: as the training's data.preprocess says"
    add("--size", choices=("own", "trained"), help=size_help)
    tile_help = "side of the tiles, in pixels, in which large images are computed; the result is the same"
    add("--tile", type=_positive, metavar="N", help=tile_help)
    overlap_help = "with batch norm, compute each tile at once, with so many pixels around, and blend them"
    add("--overlap", type=_whole, metavar="M", help=overlap_help)
    add("--tta", choices=("flip",), help="flip: the mean with the translation of the mirrored image, mirrored back")
    metrics_help = "beside L1, PSNR, SSIM and MS-SSIM: some of lpips,fid,kid; default: what the training measured; none"
    add("--metrics", metavar="LIST", help=metrics_help)
    add("--device", choices=("auto", "cpu", "cuda"), default="auto")
    add("overrides", nargs="*", metavar="section.key=value", help="settings in place of the checkpoint's")
    arguments = parser.parse_intermixed_args(argv)
    settings = [str(path) for path in arguments.input if _SETTING.match(str(path)) and not path.exists()]
    arguments.input = [path for path in arguments.input if str(path) not in settings]
    arguments.overrides += settings
    if arguments.metrics is not None:
        arguments.overrides.append(f"metrics.extra=[{'' if arguments.metrics == 'none' else arguments.metrics}]")
    del arguments.metrics
    if problem := _contradiction(arguments):
        parser.error(problem)
    return arguments


_SETTING = re.compile(r"[a-z0-9_]+(\.[a-z0-9_]+)+=")  # after the paths of --input the parser cannot tell


def _contradiction(arguments: argparse.Namespace) -> str | None:
    """What of the command line does not go together, and the way out."""
    if not arguments.input and (arguments.instances or arguments.targets or arguments.feature_maps):
        return "--instances, --targets and --feature-maps go with --input"
    if arguments.input and arguments.split:
        return "--split goes with the data set, not with --input"
    if arguments.seed < 0:
        return f"--seed {arguments.seed}: expected a whole number from 0"
    if arguments.overlap is not None and not arguments.tile:
        return "--overlap goes with --tile"
    for option in ("noise", "tile"):
        if getattr(arguments, option) and arguments.batch_size > 1:
            return f"--{option} takes one image at a time: leave --batch-size out"
    if arguments.tile and (arguments.noise or arguments.compile == "on"):
        return f"--tile goes without {'--noise' if arguments.noise else '--compile on'}: leave one of them out"
    return None


def _positive(text: str) -> int:
    if not text.isdecimal() or int(text) == 0:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number above 0")
    return int(text)


def _whole(text: str) -> int:
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number from 0")
    return int(text)


def main(argv: Sequence[str]) -> None:
    """Parse the command line and do what it says."""
    arguments = parse_arguments(argv)

    from inference.translate import Request, translate  # torch takes seconds

    translate(Request(**vars(arguments)))


if __name__ == "__main__":
    sys.exit(run_entry_point(main))
