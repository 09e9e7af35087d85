"""The options of a command line that name a generator and how it computes; imports nothing slow."""

from pathlib import Path

from configs.schema.data import DIRECTIONS
from utils.cli import ArgumentParser, whole_number


def add_generator_options(parser: ArgumentParser, checkpoint: str, *, most_seed: int | None = None) -> None:
    """Add --checkpoint and what concerns its generator; most_seed: the greatest one."""
    add = parser.add_argument
    add("--checkpoint", type=Path, metavar="RUN_OR_FILE", help=f"{checkpoint}; default: newest run")
    direction_help = "of a run or folder of CycleGAN's, which has a generator for each direction; default: AtoB"
    add("--direction", choices=DIRECTIONS, help=direction_help)
    clusters_help = "clusters of features; default: feature_clusters.pt beside the checkpoint"
    add("--clusters", type=Path, metavar="FILE", help=clusters_help)
    add("--noise", action="store_true", help="use dropout and each image's own batch statistics, as pix2pix does")
    seed_help = "seed of sampled features, of noise and of drawn styles"
    add("--seed", type=whole_number(0, most_seed), default=0, metavar="N", help=seed_help)
    add("--weights", choices=("ema", "raw"), default="ema", help="ema: the moving average if the run has one")
    level_help = "O0: float32, default of the originals' files; O1: autocast; O2: weights cast, default; O3: norms too"
    add("--opt-level", choices=("O0", "O1", "O2", "O3"), help=level_help)
    add("--dtype", choices=("auto", "float16", "bfloat16"), default="auto", help="low precision of O1, O2, O3")
    tile_help = "compute images larger than N pixels in tiles of that side, with the same result"
    add("--tile", type=whole_number(1), metavar="N", help=tile_help)
    window_help = "with instance norm, translate windows of N pixels, such as the training crop, and blend them"
    add("--norm-window", type=whole_number(4), metavar="N", help=window_help)
    add("--device", choices=("auto", "cpu", "cuda"), default="auto")
    add("overrides", nargs="*", metavar="section.key=value", help="settings that replace the checkpoint's")


def contradictions(*, tile: int | None, norm_window: int | None, noise: bool) -> dict[str, object]:
    """Return problems of those options, each with whether it is there."""
    return {
        "--tile and --noise exclude each other: leave one of them out": tile and noise,
        "--norm-window and --tile exclude each other: leave one of them out": norm_window and tile,
        "--norm-window and --noise exclude each other: leave one of them out": norm_window and noise,
    }
