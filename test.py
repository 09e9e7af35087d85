"""Translate images with a trained generator: python test.py [--checkpoint RUN] [--input PATH …] [--output PATH]."""

import argparse
import re
import sys
from collections.abc import Sequence
from pathlib import Path

from inference.request import Request, add_generator_options, contradictions
from utils.cli import ArgumentParser, run_entry_point, whole_number
from utils.signals import handling_ctrl_c, leave_at_once
from utils.signatures import accepted


def parse_arguments(argv: Sequence[str]) -> argparse.Namespace:
    """Parse the command line.

    argparse treats overrides after the paths of --input as paths. This function separates paths and overrides.
    """
    parser = ArgumentParser(description="Translate images, or a video, with a trained generator.")
    add = parser.add_argument
    checkpoint_help = "run, checkpoint, .safetensors file, or file of an original program, such as latest_net_G_A.pth"
    checkpoint_help += "; if repeated, translations are averaged"
    add_generator_options(parser, checkpoint_help, averages=True)
    spread_help = "also write NAME_spread.tif: standard deviation of the translations of several checkpoints"
    add("--spread", action="store_true", help=spread_help)
    input_help = "folders or files of sources, or one video; default: the test split; "
    input_help += "for a run with several source folders, name one folder or one file for each, in the same order"
    add("--input", type=Path, nargs="+", action="extend", default=[], metavar="PATH", help=input_help)
    add("--instances", type=Path, metavar="DIR", help="folder of instance maps for --input")
    add("--targets", type=Path, metavar="DIR", help="folder of targets for --input, to compute metrics")
    nodata_help = "value of missing pixels in sources, such as -9999; default: the value that each TIFF names, and NaN"
    add("--nodata", type=float, metavar="VALUE", help=nodata_help)
    add("--features", choices=("sampled", "given"), help="instance features: drawn from clusters, or of each sample")
    add("--feature-maps", type=Path, metavar="DIR", help="folder of precomputed feature maps for --input")
    style_help = "image that gives the style, if the generator has styles; default: a random style for each image"
    add("--style", type=Path, metavar="IMAGE", help=style_help)
    add("--split", metavar="NAME", help="split of the data set, if there is no --input; default: the test split")
    output_help = "folder of the results, or file of a translated video; default: results/RUN/SPLIT_stepSTEP"
    add("--output", type=Path, metavar="PATH", help=output_help)
    existing_help = "refuse: replace only results of test.py; replace: also other files; keep: only add missing images"
    add("--existing", choices=("refuse", "replace", "keep"), default="refuse", help=existing_help)
    compile_help = "compile the generator before the first image, which is faster for many images of one size"
    add("--compile", choices=("on", "off"), default="off", help=compile_help)
    batch_help = "images of one size translated together; default: 1, or 8 slices of a volume"
    add("--batch-size", type=whole_number(1), metavar="N", help=batch_help)
    mask_help = "volumes: mask, or folder of masks for --input; the lowest value of the targets is written outside"
    add("--mask", type=Path, metavar="PATH", help=mask_help)
    axes_help = "volumes: mean of the translations along three axes, for cubic voxels and data.axis=all"
    add("--average-axes", action="store_true", help=axes_help)
    window_help = "volumes: target values that are black and white in the gallery; default: data.target_range"
    add("--window", type=float, nargs=2, metavar=("LOW", "HIGH"), help=window_help)
    size_help = "own: keep each image's size (default with --input); trained: apply data.preprocess"
    add("--size", choices=("own", "trained"), help=size_help)
    pixels_help = "read whole images of up to N pixels; default: as many as fit into a quarter of the memory"
    add("--max-pixels", type=whole_number(1), metavar="N", help=pixels_help)
    metrics_help = "metrics besides L1, PSNR, SSIM and MS-SSIM: lpips,swd,fid,kid,… or none; default: as in training"
    add("--metrics", metavar="LIST", help=metrics_help)
    arguments = parser.parse_intermixed_args(argv)
    settings = [str(path) for path in arguments.input if _SETTING.match(str(path)) and not path.exists()]
    arguments.input = [path for path in arguments.input if str(path) not in settings]
    arguments.overrides += settings
    if arguments.metrics is not None:
        arguments.overrides.append(f"metrics.extra=[{'' if arguments.metrics == 'none' else arguments.metrics}]")
    del arguments.metrics
    arguments.checkpoint, *arguments.more_checkpoints = arguments.checkpoint or [None]
    if problem := _stray_path(arguments.overrides) or _contradiction(arguments):
        parser.error(problem)
    return arguments


_SETTING = re.compile(r"[a-z0-9_]+(\.[a-z0-9_]+)+=")


def _stray_path(overrides: Sequence[str]) -> str | None:
    """Return an error message if a path has no option, otherwise None."""
    for word in overrides:
        if "=" not in word and ("/" in word or Path(word).exists()):
            is_run = "." not in Path(word).name or Path(word).suffix in (".pt", ".pth", ".safetensors")
            return f"{word} is no setting: did you mean {'--checkpoint' if is_run else '--input'} {word}?"
    return None


def _contradiction(arguments: argparse.Namespace) -> str | None:
    """Return an error message if options exclude each other, otherwise None."""
    given, tile, one_image = arguments.input, arguments.tile, "takes one image at a time: leave --batch-size out"
    maps = arguments.instances or arguments.targets or arguments.feature_maps or arguments.mask
    several = (arguments.batch_size or 1) > 1
    problems = {
        "--instances, --targets, --mask and --feature-maps need --input": maps and not given,
        "--split and --input exclude each other: leave one of them out": given and arguments.split,
        "--spread needs a second --checkpoint: add it": arguments.spread and not arguments.more_checkpoints,
        "--window: LOW must be below HIGH": arguments.window and arguments.window[0] >= arguments.window[1],
        f"--noise {one_image}": arguments.noise and several,
        f"--tile {one_image}": tile and several,
        f"--norm-window {one_image}": arguments.norm_window and several,
        **contradictions(**accepted(contradictions, vars(arguments))),
        "--tile and --compile on exclude each other: leave one of them out": tile and arguments.compile == "on",
        "--norm-window and --compile on exclude each other: leave one of them out": arguments.norm_window
        and arguments.compile == "on",
    }
    return next((problem for problem, is_there in problems.items() if is_there), None)


def main(argv: Sequence[str]) -> None:
    """Parse the command line and translate."""
    arguments = parse_arguments(argv)

    with handling_ctrl_c(leave_at_once):
        from inference.translate import translate  # imports torch, which takes seconds

    translate(Request(**vars(arguments)))


if __name__ == "__main__":
    sys.exit(run_entry_point(main))
