"""Weights of pix2pixHD's original networks in the names of ours, for comparison with recorded figures.

The originals have a bias before every norm, which instance norm takes away and batch norm's running mean absorbs.
"""

from torch import Tensor, nn

from models.global_generator import GlobalGenerator
from models.patch_discriminator import MultiscalePatchDiscriminator

Weights = dict[str, Tensor]


def generator_weights(original: Weights, generator: GlobalGenerator) -> Weights:
    """Both networks list the same tensors in the same order, but for the biases before norms."""
    kept = {key: value.double() for key, value in original.items()}
    convolutions = [key for key, value in original.items() if key.endswith("weight") and value.dim() == 4]
    for key in convolutions[:-1]:  # the last has no norm behind it
        bias = kept.pop(key.replace("weight", "bias"))
        prefix, number = key.removesuffix(".weight").rsplit(".", 1)
        running_mean = f"{prefix}.{int(number) + 1}.running_mean"
        if running_mean in kept:
            kept[running_mean] = kept[running_mean] - bias
    return _renamed(kept, generator)


def discriminator_weights(original: Weights, discriminator: MultiscalePatchDiscriminator) -> Weights:
    """The original numbers its scales from the lowest resolution, ours from the highest."""
    n_scales, n_layers = len(discriminator.scales), len(discriminator.scales[0].layers)  # type: ignore[arg-type]
    kept = {}
    for scale in reversed(range(n_scales)):
        for layer in range(n_layers + 1):
            prefix = f"scale{scale}_layer{layer}.0."
            kept[prefix + "weight"] = original[prefix + "weight"]
            if layer in (0, n_layers):
                kept[prefix + "bias"] = original[prefix + "bias"]
    return _renamed(kept, discriminator)


def _renamed(original: Weights, network: nn.Module) -> Weights:
    return dict(zip(network.state_dict(), original.values(), strict=True))
