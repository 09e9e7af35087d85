"""Section `data.augment`: what is drawn for each training pair."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from configs.schema.checks import require
from utils.limits import MOST_ELASTIC


@dataclass(frozen=True)
class PairAugmentationConfig:
    """Augmentation of training pairs. Each range is [lowest, highest]; empty: off."""

    rotation_degrees: list[float] = field(default_factory=list)
    """Counter-clockwise, about the middle of the crop: [-10,10]. Beyond its borders an image continues as its
    reflection, and so do labels and instances."""
    scale: list[float] = field(default_factory=list)
    """Magnification, 0.5 to 2: [0.8,1.25], of which half enlarge. Below 1 the crop shows more of the image."""
    shear_degrees: list[float] = field(default_factory=list)
    """Slant of vertical lines, -45 to 45: [-5,5]."""
    elastic: list[float] = field(default_factory=list)
    """Smooth deformation, 0 to 0.12: [0,0.06]. The largest displacement, as a share of the crop's shorter side; usual
    ones are a third of it."""
    vertical_flip: bool = False
    """Turn half of the samples upside down. data.flip mirrors them."""
    quarter_turns: bool = False
    """Turn samples by 0, 90, 180 or 270 degrees; crops have to be square. Whole images (data.preprocess scale_width,
    none) that are not are turned by 0 or 180."""
    color: list[float] = field(default_factory=list)
    """Factors of the source's brightness, contrast and saturation, 0 to 4, each drawn by itself: [0.8,1.25]."""
    hue: list[float] = field(default_factory=list)
    """Shift of the source's hue, in turns of the colour circle, -0.5 to 0.5: [-0.05,0.05]."""
    noise: list[float] = field(default_factory=list)
    """Standard deviation of the source's noise as a share of its range, 0 to 0.5: [0,0.05]."""
    jpeg_quality: list[int] = field(default_factory=list)
    """Quality at which the source is compressed, 1 to 100: [50,95]."""

    def __post_init__(self) -> None:
        _require_range("rotation_degrees", self.rotation_degrees, -180, 180)
        _require_range("scale", self.scale, 0.5, 2)
        _require_range("shear_degrees", self.shear_degrees, -45, 45)
        _require_range("elastic", self.elastic, 0, MOST_ELASTIC)
        _require_range("color", self.color, 0, 4)
        _require_range("hue", self.hue, -0.5, 0.5)
        _require_range("noise", self.noise, 0, 0.5)
        _require_range("jpeg_quality", self.jpeg_quality, 1, 100)


def _require_range(name: str, bounds: Sequence[float], least: float, most: float) -> None:
    is_range = len(bounds) == 2 and least <= bounds[0] <= bounds[1] <= most
    expected = f"[lowest,highest] from {least:g} to {most:g}, or [] for none"
    require(is_range or not bounds, f"data.augment.{name}", bounds, expected)
