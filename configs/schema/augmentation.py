"""Augmentation of training pairs (section `data.augment`) and of what the discriminator sees (`augmentation`)."""

from dataclasses import dataclass, field

from configs.schema.checks import require
from utils.limits import MOST_ELASTIC

AUGMENTATIONS = ("color", "translation", "cutout")
_LIMITS = {
    "rotation_degrees": (-180, 180),
    "scale": (0.5, 2),
    "shear_degrees": (-45, 45),
    "elastic": (0, MOST_ELASTIC),
    "color": (0, 4),
    "hue": (-0.5, 0.5),
    "noise": (0, 0.5),
    "jpeg_quality": (1, 100),
}


@dataclass(frozen=True)
class AugmentationConfig:
    """Augmentation of what the discriminator sees, in the training of both networks (DiffAugment, Zhao et al. 2020):
    against its overfitting, where there are few pairs."""

    policy: list[str] = field(default_factory=list)
    """Operations in the order in which they are applied, of color (brightness, saturation, contrast), translation (up
    to an eighth of each side) and cutout (a box of half the sides): [color,translation,cutout]. The source moves with
    the image. Real and translated image of a pair are augmented alike. Empty: none."""
    target: float | None = None
    """Experimental. Control the probability that an operation is applied to a sample, which starts at 0 and stays below
    0.8, at each validation: it rises while the discriminator overfits by more than this, and falls otherwise. 0: it
    takes pairs of the validation samples for as real as training pairs; 1: for translated ones; 0.5 is usual (Karras et
    al. 2020). Needs validation samples that are not trained on, better 50 than 4 (metrics.n_samples), and validations
    that are not rare (log.images_every_steps). Default: each operation is applied to each sample."""

    def __post_init__(self) -> None:
        are_known = all(name in AUGMENTATIONS for name in self.policy)
        is_list = are_known and len(set(self.policy)) == len(self.policy)
        expected = f"a list of some of {', '.join(AUGMENTATIONS)}, each once"
        require(is_list, "augmentation.policy", self.policy, expected)
        target = self.target
        require(target is None or 0 < target < 1, "augmentation.target", target, "above 0 and below 1, or null")


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
        for name, (least, most) in _LIMITS.items():
            bounds = getattr(self, name)
            is_range = len(bounds) == 2 and least <= bounds[0] <= bounds[1] <= most
            expected = f"[lowest,highest] from {least:g} to {most:g}, or [] for none"
            require(is_range or not bounds, f"data.augment.{name}", bounds, expected)
