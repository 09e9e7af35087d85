"""Section `contrastive`: the loss of method.name=contrastive."""

from dataclasses import dataclass, field

from configs.schema.checks import require, require_at_least


@dataclass(frozen=True)
class ContrastiveConfig:
    """method.name=contrastive: patches of a translation shall resemble those at their places in the source (CUT)."""

    weight: float = 1.0
    """Weight of the loss, beside loss.adversarial; 1 in CUT, 10 in FastCUT."""
    taps: list[str] = field(default_factory=lambda: ["stem.0", "downs.0.0", "downs.1.0", "blocks.0", "blocks.4"])
    """Layers of the generator whose outputs are compared, by the names of its modules; of the encoder and the blocks.
    stem.0 is the image with its reflected border, downs.0.0 the first downsampling convolution."""
    n_patches: int = 256
    """Patches of each image that are drawn for a step, at each tap."""
    channels: int = 256
    """Length of the vectors that are compared, and width of the projection network that makes them."""
    temperature: float = 0.07
    """Of the softmax that has to find a patch among the others; lower is stricter."""
    identity: bool = True
    """Translate target images too, whose patches shall stay as they are. CUT; not FastCUT."""
    flip_equivariance: bool = False
    """Mirror the sources of half of the steps. FastCUT; not CUT."""
    all_negatives: bool = False
    """Compare with the patches of all images of the batch, in place of those of the same image alone."""

    def __post_init__(self) -> None:
        require_at_least(0, "contrastive", weight=self.weight)
        require_at_least(1, "contrastive", n_patches=self.n_patches, channels=self.channels)
        require_at_least(1e-4, "contrastive", temperature=self.temperature)
        are_names = bool(self.taps) and len(set(self.taps)) == len(self.taps)
        require(are_names, "contrastive.taps", self.taps, "a list of different layers, such as [stem.0,blocks.0]")
