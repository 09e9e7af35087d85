"""Perceptual loss on the features of a pretrained network (Johnson et al. 2016; Wang et al. 2018)."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from losses.distances import feature_distance, normalized_distance
from losses.objective import LossInputs, PixelWeights
from utils.device import at_least_float32
from utils.efficientnet_lite import COMPARED, LITE0, efficientnet_lite
from utils.pretrained import PretrainedFile

# relu1_1, relu2_1, relu3_1, relu4_1, relu5_1 in torchvision's numbering, and pix2pixHD's weights of their L1
LAYERS = (1, 6, 11, 20, 29)
LAYER_WEIGHTS = (1 / 32, 1 / 16, 1 / 8, 1 / 4, 1.0)
VGG19 = PretrainedFile(
    url="https://download.pytorch.org/models/vgg19-dcbb9e9d.pth",
    what="loss.perceptual_network=vgg19 needs VGG19's weights",
    megabytes=548,
    without="loss.perceptual=0",
)
ENLARGEMENT = 1.75  # of images for EfficientNet-Lite0, from 128 pixels to the 224 of its training images

Distance = Callable[[Tensor, Tensor, PixelWeights | None], Tensor]
"""Distance of the features (N, C, h, w) of images and of targets, 0-d, with weights of the pixels if there are any."""


def perceptual_loss(*, perceptual_network: str, activation_checkpointing: bool) -> "PerceptualLoss":
    """Return the distance of the features of one of PERCEPTUAL_NETWORKS.

    Raises:
        WeightsError: The network's weights are not available.
    """
    chosen = PERCEPTUAL_NETWORKS[perceptual_network]
    return PerceptualLoss(chosen.make(activation_checkpointing), chosen.distance, chosen.layer_weights)


class PerceptualLoss(nn.Module):
    """Weighted distance between the features of two images.

    network: Maps (N, 3 or 1, H, W) images in [-1, 1] to a list of features.
    distance: Distance of two features. layer_weights: Weight of each feature.
    """

    def __init__(
        self,
        network: nn.Module,
        distance: Distance = feature_distance,
        layer_weights: Sequence[float] = LAYER_WEIGHTS,
    ) -> None:
        super().__init__()
        self.network = network
        self.distance = distance
        self.layer_weights = tuple(layer_weights)

    def forward(self, translation: LossInputs) -> Tensor:
        """Return the distance of images and targets, 0-d, float32 under autocast. Targets get no gradient."""
        with torch.no_grad():
            target_features = self.network(translation.target)
        weights = translation.weights.of_images if translation.weights else None
        layers = zip(self.network(translation.fake), target_features, self.layer_weights, strict=True)
        return torch.stack([weight * self.distance(f, t, weights) for f, t, weight in layers]).sum()


class FeatureNetwork(nn.Module):
    """A frozen network in slices. Each slice ends at a compared layer.

    activation_checkpointing: Whether to recompute activations between the compared layers in the backward pass.
    """

    def __init__(self, slices: Sequence[nn.Module], *, activation_checkpointing: bool) -> None:
        super().__init__()
        self.slices = nn.ModuleList(slices)
        self.activation_checkpointing = activation_checkpointing
        self.eval().requires_grad_(False)

    def forward(self, x: Tensor) -> list[Tensor]:
        """Return the outputs of the slices, (N, C_l, H_l, W_l) each, for an input of the first one."""
        features = []
        for part in self.slices:
            if self.activation_checkpointing and torch.is_grad_enabled():
                x = checkpoint(part, x, use_reentrant=False, preserve_rng_state=False)
            else:
                x = part(x)
            features.append(x)
        return features


class VGG19Features(FeatureNetwork):
    """The layers of VGG19 whose activations the loss compares. state_dict: VGG19's weights with torchvision's names."""

    def __init__(self, state_dict: Mapping[str, Tensor], *, activation_checkpointing: bool = False) -> None:
        layers = _layers()
        layers.load_state_dict({key: state_dict[f"features.{key}"] for key in layers.state_dict()}, assign=True)
        bounds = [0, *(layer + 1 for layer in LAYERS)]
        slices = [layers[start:end] for start, end in pairwise(bounds)]
        super().__init__(slices, activation_checkpointing=activation_checkpointing)

    def forward(self, images: Tensor) -> list[Tensor]:
        """Return the features of (N, 3 or 1, H, W) images in [-1, 1] for each of the 5 layers.

        As in pix2pixHD, the images are not normalized by ImageNet's statistics.
        """
        return super().forward(images.expand(-1, 3, -1, -1))


class EfficientNetFeatures(FeatureNetwork):
    """The stem of EfficientNet-Lite0 and the ends of five of its seven stages."""

    def __init__(self, *, activation_checkpointing: bool = False) -> None:
        network = efficientnet_lite(LITE0)
        bounds = [0, *(part + 1 for part in COMPARED)]
        slices = [network[start:end] for start, end in pairwise(bounds)]
        super().__init__(slices, activation_checkpointing=activation_checkpointing)

    def forward(self, images: Tensor) -> list[Tensor]:
        """Return the features of (N, 3 or 1, H, W) images in [-1, 1], in float32, for each of the 6 parts."""
        with torch.autocast(images.device.type, enabled=False):
            images = (at_least_float32(images) + 1) / 2  # bfloat16 changes half of the gradient
            images = F.interpolate(images, scale_factor=ENLARGEMENT, mode="bilinear") if ENLARGEMENT != 1 else images
            return super().forward(images)


def load_vgg19_weights() -> Mapping[str, Tensor]:
    """Return torchvision's state dict of VGG19 from torch's cache; download it first if it is missing.

    Raises:
        WeightsError: The file cannot be read or holds another network, or the download fails.
    """
    weights = VGG19.load()
    weights.require({f"features.{key}": value.shape for key, value in _layers().state_dict().items()})
    return weights.tensors


def _layers() -> nn.Sequential:
    """Return VGG19's layers up to the last compared one on the meta device, without memory for 548 MB of weights."""
    from torchvision.models import vgg19  # takes as long as importing torch

    with torch.device("meta"):
        return cast(nn.Sequential, vgg19().features[: LAYERS[-1] + 1])


@dataclass(frozen=True)
class PerceptualNetwork:
    """A value of loss.perceptual_network.

    make: Returns the network, given whether to recompute its activations.
    distance, layer_weights: Distance of its features, and their weights.
    least_side: Shortest side of an image, in pixels.
    file: File in torch's cache that it reads, if any.
    """

    make: Callable[[bool], nn.Module]
    distance: Distance
    layer_weights: Sequence[float]
    least_side: int
    file: PretrainedFile | None = None


PERCEPTUAL_NETWORKS: dict[str, PerceptualNetwork] = {
    "vgg19": PerceptualNetwork(
        lambda recomputes: VGG19Features(load_vgg19_weights(), activation_checkpointing=recomputes),
        distance=feature_distance,
        layer_weights=LAYER_WEIGHTS,
        least_side=16,  # four poolings make one pixel of 16
        file=VGG19,
    ),
    "efficientnet_lite0": PerceptualNetwork(
        lambda recomputes: EfficientNetFeatures(activation_checkpointing=recomputes),
        distance=normalized_distance,
        layer_weights=[1 / len(COMPARED)] * len(COMPARED),
        least_side=math.ceil(32 / ENLARGEMENT),  # five strides make one pixel of 32
    ),
}
