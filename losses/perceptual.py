"""Perceptual loss on the features of a pretrained network (Johnson et al. 2016; Wang et al. 2018)."""

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import ClassVar, cast

import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from losses.distances import feature_distance, normalized_distance
from losses.objective import LossInputs, PixelWeights
from utils.efficientnet_lite import COMPARED, LEAST_SIDE, LITE0, efficientnet_lite, enlarged
from utils.pretrained import PretrainedFile

# torchvision's numbers of relu1_1, relu2_1, relu3_1, relu4_1 and relu5_1
LAYERS = (1, 6, 11, 20, 29)
VGG19 = PretrainedFile(
    url="https://download.pytorch.org/models/vgg19-dcbb9e9d.pth",
    what="loss.perceptual_network=vgg19 needs VGG19's weights",
    megabytes=548,
    alternative="set loss.perceptual=0 or loss.perceptual_network=efficientnet_lite0 loss.perceptual=20",
)


class PerceptualLoss(nn.Module):
    """Weighted distance between the features of two images, in a frozen network that is divided at the compared layers.

    distance: Distance, 0-d, of two feature maps (N, C, h, w), with pixel weights or None.
    layer_weights: Weight of each compared layer.
    least_side: Least height and width of images, in pixels. file: Weight file in torch's cache, if any.
    activation_checkpointing: Whether the backward pass recomputes the activations between compared layers.
    """

    distance: Callable[[Tensor, Tensor, PixelWeights | None], Tensor]
    layer_weights: ClassVar[Sequence[float]]
    least_side: ClassVar[int]
    file: ClassVar[PretrainedFile | None] = None

    def __init__(self, layers: nn.Sequential, compared: Sequence[int], activation_checkpointing: bool) -> None:
        super().__init__()
        bounds = [0, *(layer + 1 for layer in compared)]
        self.slices = nn.ModuleList(layers[start:end] for start, end in pairwise(bounds))
        self.activation_checkpointing = activation_checkpointing
        self.eval().requires_grad_(False)

    def forward(self, translation: LossInputs) -> Tensor:
        """Return the distance of translations and targets, 0-d, float32 under autocast. Targets get no gradient."""
        with torch.no_grad():
            target_features = self.features(translation.target)
        weights = translation.weights.of_images if translation.weights else None
        layers = zip(self.features(translation.fake), target_features, self.layer_weights, strict=True)
        return torch.stack([weight * self.distance(fake, target, weights) for fake, target, weight in layers]).sum()

    def features(self, x: Tensor) -> list[Tensor]:
        """Return the output of each slice, (N, C_l, H_l, W_l), for the input `x` of the first slice."""
        features = []
        for part in self.slices:
            recomputes = self.activation_checkpointing and torch.is_grad_enabled()
            x = checkpoint(part, x, use_reentrant=False, preserve_rng_state=False) if recomputes else part(x)
            features.append(x)
        return features


class VGG19Loss(PerceptualLoss):
    """pix2pixHD's weighted L1 of VGG19's features. Raises WeightsError if the file cannot be read or downloaded."""

    distance, layer_weights = staticmethod(feature_distance), (1 / 32, 1 / 16, 1 / 8, 1 / 4, 1.0)
    least_side = 16  # four poolings reduce 16 pixels to 1
    file = VGG19

    def __init__(self, *, activation_checkpointing: bool) -> None:
        from torchvision.models import vgg19  # takes as long to import as torch

        with torch.device("meta"):  # saves memory
            layers = cast(nn.Sequential, vgg19().features[: LAYERS[-1] + 1])
        weights, empty = VGG19.load(), layers.state_dict()
        weights.require({f"features.{key}": value.shape for key, value in empty.items()})
        layers.load_state_dict({key: weights.tensors[f"features.{key}"] for key in empty}, assign=True)
        super().__init__(layers, LAYERS, activation_checkpointing)

    def features(self, images: Tensor) -> list[Tensor]:
        """Return the features of (N, 3 or 1, H, W) images in [-1, 1]. As in pix2pixHD, do not normalize the images."""
        return super().features(images.expand(-1, 3, -1, -1))


class EfficientNetLoss(PerceptualLoss):
    """Squared distance of normalized features of EfficientNet-Lite0, after the stem and five of the stages.

    Raises WeightsError if the pip package with the weights is missing.
    """

    distance, layer_weights = staticmethod(normalized_distance), [1 / len(COMPARED)] * len(COMPARED)
    least_side = LEAST_SIDE

    def __init__(self, *, activation_checkpointing: bool) -> None:
        super().__init__(efficientnet_lite(LITE0), COMPARED, activation_checkpointing)

    def features(self, images: Tensor) -> list[Tensor]:
        """Return the features of (N, 3 or 1, H, W) images in [-1, 1], in float32 even under autocast."""
        with torch.autocast(images.device.type, enabled=False):
            return super().features(enlarged(images))


# losses by value of loss.perceptual_network
PERCEPTUAL_LOSSES: dict[str, type[VGG19Loss] | type[EfficientNetLoss]] = {
    "vgg19": VGG19Loss,
    "efficientnet_lite0": EfficientNetLoss,
}
