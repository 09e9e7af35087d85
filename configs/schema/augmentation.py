"""Section `augmentation`: what the discriminator sees."""

from dataclasses import dataclass, field

from configs.schema.checks import require

AUGMENTATIONS = ("color", "translation", "cutout")


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
