"""The options of test.py as one typed object."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from utils.precision import OptLevel

Existing = Literal["refuse", "replace", "keep"]


@dataclass(frozen=True)
class Request:
    """The images to translate, the generator and the settings; each field is the option of test.py of that name.

    None and an empty `input` stand for the option's default.
    """

    checkpoint: Path | None
    input: Sequence[Path]
    instances: Path | None
    targets: Path | None
    features: Literal["sampled", "given"] | None
    clusters: Path | None
    feature_maps: Path | None
    noise: bool
    seed: int
    split: str | None
    output: Path | None
    weights: Literal["ema", "raw"]
    opt_level: OptLevel | None
    dtype: Literal["auto", "float16", "bfloat16"]
    compile: Literal["auto", "on", "off"]
    batch_size: int
    device: Literal["auto", "cpu", "cuda"]
    overrides: Sequence[str]
    size: Literal["own", "trained"] | None = None
    tile: int | None = None
    overlap: int | None = None
    tta: Literal["flip"] | None = None
    side: Literal["A", "B", "none"] | None = None
    existing: Existing = "refuse"
    frames: Path | None = None
    style: Path | None = None
    max_pixels: int | None = None

    @property
    def keeps_sizes(self) -> bool:
        """Whether images are translated at their own size: by default those of --input, unless an override sets one."""
        if self.size is not None:
            return self.size == "own"
        sizing = ("data.preprocess=", "data.load_", "data.crop_")
        return bool(self.input) and not any(override.startswith(sizing) for override in self.overrides)
