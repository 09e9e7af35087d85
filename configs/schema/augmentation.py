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
    probability: float = 1.0
    """That an operation is applied to a sample, for each operation by itself."""

    def __post_init__(self) -> None:
        are_known = all(name in AUGMENTATIONS for name in self.policy)
        is_list = are_known and len(set(self.policy)) == len(self.policy)
        expected = f"a list of some of {', '.join(AUGMENTATIONS)}, each once"
        require(is_list, "augmentation.policy", self.policy, expected)
        require(0 <= self.probability <= 1, "augmentation.probability", self.probability, "0 <= probability <= 1")
