"""Options of test.py and of the servers. This module has only fast imports."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal, Self

from configs.schema.data import DIRECTIONS
from utils.cli import ArgumentParser, whole_number

Existing = Literal["refuse", "replace", "keep"]
_SIZING = ("data.preprocess=", "data.load_", "data.crop_")


@dataclass(frozen=True)
class Request:
    """The options of test.py by name. Without `checkpoint`, the newest run is used.

    more_checkpoints: Checkpoints whose translations are averaged with the translations of `checkpoint`.
    spread: Whether to also write the standard deviation over the translations of all checkpoints.
    input: Images to translate. Empty: translate a split of the data set.
    mask: Volumes: mask file, or folder of masks. Pixels outside the mask get the lowest value of the targets.
    average_axes: Volumes: whether to translate along each of the three axes, and write the mean.
    batch_size: Number of images translated together. None: 1, or 8 slices of a volume.
    window: Volumes: target values that are black and white in the gallery. None: the targets' range.
    nodata: Value of pixels without data, in addition to NaN and infinity. None: the value in the tags of each TIFF.
    size: "own" if images are translated at their own size, and "trained" if they are resized as in training.
    """

    checkpoint: Path | None = None
    direction: str | None = None
    weights: Literal["ema", "raw"] = "ema"
    overrides: Sequence[str] = ()
    input: Sequence[Path] = ()
    split: str | None = None
    instances: Path | None = None
    targets: Path | None = None
    mask: Path | None = None
    feature_maps: Path | None = None
    nodata: float | None = None
    features: Literal["sampled", "given"] | None = None
    clusters: Path | None = None
    noise: bool = False
    seed: int = 0
    style: Path | None = None
    device: Literal["auto", "cpu", "cuda"] = "auto"
    opt_level: Literal["O0", "O1", "O2", "O3"] | None = None
    dtype: Literal["auto", "float16", "bfloat16"] = "auto"
    compile: Literal["on", "off"] = "off"
    batch_size: int | None = None
    tile: int | None = None
    norm_window: int | None = None
    max_pixels: int | None = None
    average_axes: bool = False
    window: Sequence[float] | None = None
    output: Path | None = None
    existing: Existing = "refuse"
    size: Literal["own", "trained"] | None = None
    more_checkpoints: Sequence[Path] = ()
    spread: bool = False

    @property
    def keeps_sizes(self) -> bool:
        """Whether images are translated at their own size."""
        return self.size == "own"

    def with_size(self, preprocess: str) -> Self:
        """Return a copy of the request with a value for --size.

        The default is "own" if `preprocess` is "crop", or if --input is set and no override changes the size.

        preprocess: Value of `data.preprocess` in training.
        """
        is_sized = any(word.startswith(_SIZING) for word in self.overrides)
        keeps_sizes = preprocess == "crop" or (bool(self.input) and not is_sized)
        return replace(self, size=self.size or ("own" if keeps_sizes else "trained"))


def add_generator_options(
    parser: ArgumentParser, checkpoint: str, *, most_seed: int | None = None, averages: bool = False
) -> None:
    """Add the options that choose a generator and how to run it.

    checkpoint: Help text of --checkpoint.
    most_seed: Largest value of --seed.
    averages: Whether --checkpoint can be repeated. Its value is then a list, or None.
    """
    add = parser.add_argument
    checkpoint_help, action = f"{checkpoint}; default: newest run", "append" if averages else "store"
    add("--checkpoint", type=Path, action=action, metavar="RUN_OR_FILE", help=checkpoint_help)
    direction_help = "direction, if a CycleGAN run or folder has two generators; default: AtoB"
    add("--direction", choices=DIRECTIONS, help=direction_help)
    clusters_help = "clusters of instance features; default: feature_clusters.pt next to the checkpoint"
    add("--clusters", type=Path, metavar="FILE", help=clusters_help)
    add("--noise", action="store_true", help="use dropout and each image's own batch statistics, as pix2pix does")
    seed_help = "seed of sampled features, noise and styles"
    add("--seed", type=whole_number(0, most_seed), default=0, metavar="N", help=seed_help)
    add("--weights", choices=("ema", "raw"), default="ema", help="ema: the moving average if the run has one")
    level_help = "O0: float32 (default for original programs and images of more than 8 bits); O1: autocast; "
    level_help += "O2: 16-bit weights (default otherwise); O3: also 16-bit norms"
    add("--opt-level", choices=("O0", "O1", "O2", "O3"), help=level_help)
    add("--dtype", choices=("auto", "float16", "bfloat16"), default="auto", help="16-bit type of O1, O2 and O3")
    tile_help = "compute images larger than N pixels in tiles of N pixels, with the same result"
    add("--tile", type=whole_number(1), metavar="N", help=tile_help)
    window_help = "for instance norm: translate NxN windows, for example of the training crop's size, and blend them"
    add("--norm-window", type=whole_number(4), metavar="N", help=window_help)
    add("--device", choices=("auto", "cpu", "cuda"), default="auto")
    add("overrides", nargs="*", metavar="section.key=value", help="settings that override the checkpoint")


def contradictions(*, tile: int | None, norm_window: int | None, noise: bool) -> dict[str, object]:
    """Return error messages about options that exclude each other. A message applies if its value is true."""
    return {
        "--tile and --noise exclude each other: leave one of them out": tile and noise,
        "--norm-window and --tile exclude each other: leave one of them out": norm_window and tile,
        "--norm-window and --noise exclude each other: leave one of them out": norm_window and noise,
    }
