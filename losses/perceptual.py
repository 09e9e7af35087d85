"""Perceptual loss on the features of a pretrained network (Johnson et al. 2016; Wang et al. 2018)."""

from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from typing import ClassVar, cast

import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from losses.distances import feature_distance, normalized_distance
from losses.objective import LossInputs, PixelWeights
from utils.efficientnet_lite import COMPARED, LEAST_SIDE, LITE0, efficientnet_lite, enlarged
from utils.pretrained import PretrainedFile

# torchvision's numbers of relu1_1, relu2_1, relu3_1, relu4_1 and relu5_1, and pix2pixHD's weights of these layers
LAYERS = (1, 6, 11, 20, 29)
LAYER_WEIGHTS = (1 / 32, 1 / 16, 1 / 8, 1 / 4, 1.0)
VGG19 = PretrainedFile(
    url="https://download.pytorch.org/models/vgg19-dcbb9e9d.pth",
    what="loss.perceptual_network=vgg19 needs VGG19's weights",
    megabytes=548,
    without="loss.perceptual=0",
    instead="loss.perceptual_network=efficientnet_lite0 loss.perceptual=20",
)


class PerceptualLoss(nn.Module):
    """Weighted distance between the features of two images."""

    def __init__(self, network: "FeatureNetwork") -> None:
        super().__init__()
        self.network = network

    def forward(self, translation: LossInputs) -> Tensor:
        """Return the distance of translations and targets, 0-d, float32 under autocast. Targets get no gradient."""
        with torch.no_grad():
            target_features = self.network(translation.target)
        weights = translation.weights.of_images if translation.weights else None
        layers = zip(self.network(translation.fake), target_features, self.network.layer_weights, strict=True)
        return torch.stack([weight * self.network.distance(f, t, weights) for f, t, weight in layers]).sum()


class FeatureNetwork(nn.Module):
    """A frozen network that is divided into slices. Each slice ends at a compared layer.

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

    def forward(self, x: Tensor) -> list[Tensor]:
        """Return the output of each slice, (N, C_l, H_l, W_l), for the input `x` of the first slice."""
        features = []
        for part in self.slices:
            recomputes = self.activation_checkpointing and torch.is_grad_enabled()
            x = checkpoint(part, x, use_reentrant=False, preserve_rng_state=False) if recomputes else part(x)
            features.append(x)
        return features


class VGG19Features(FeatureNetwork):
    """VGG19. state_dict: Weights with torchvision's names; None: read the weights from torch's cache."""

    distance, layer_weights = staticmethod(feature_distance), LAYER_WEIGHTS
    least_side = 16  # four poolings reduce 16 pixels to 1
    file = VGG19

    def __init__(
        self, state_dict: Mapping[str, Tensor] | None = None, *, activation_checkpointing: bool = False
    ) -> None:
        layers, state = _layers(), state_dict or load_vgg19_weights()
        layers.load_state_dict({key: state[f"features.{key}"] for key in layers.state_dict()}, assign=True)
        super().__init__(layers, LAYERS, activation_checkpointing)

    def forward(self, images: Tensor) -> list[Tensor]:
        """Return the features of (N, 3 or 1, H, W) images in [-1, 1]. As in pix2pixHD, do not normalize the images."""
        return super().forward(images.expand(-1, 3, -1, -1))


class EfficientNetFeatures(FeatureNetwork):
    """EfficientNet-Lite0. The compared layers are the stem and the last layers of five stages."""

    distance, layer_weights = staticmethod(normalized_distance), [1 / len(COMPARED)] * len(COMPARED)
    least_side = LEAST_SIDE

    def __init__(self, *, activation_checkpointing: bool) -> None:
        super().__init__(efficientnet_lite(LITE0), COMPARED, activation_checkpointing)

    def forward(self, images: Tensor) -> list[Tensor]:
        """Return the features of (N, 3 or 1, H, W) images in [-1, 1], in float32 even under autocast."""
        with torch.autocast(images.device.type, enabled=False):
            return super().forward(enlarged(images))


def load_vgg19_weights() -> Mapping[str, Tensor]:
    """Return torchvision's state dict of VGG19 from torch's cache; download it first if it is missing.

    Raises:
        WeightsError: The file cannot be read or holds another network, or the download fails.
    """
    weights = VGG19.load()
    weights.require({f"features.{key}": value.shape for key, value in _layers().state_dict().items()})
    return weights.tensors


def _layers() -> nn.Sequential:
    """Return VGG19's layers up to the last compared layer. They are on the meta device, to save memory."""
    from torchvision.models import vgg19  # takes as long to import as torch

    with torch.device("meta"):
        return cast(nn.Sequential, vgg19().features[: LAYERS[-1] + 1])


# networks by value of loss.perceptual_network
PERCEPTUAL_NETWORKS: dict[str, type[VGG19Features] | type[EfficientNetFeatures]] = {
    "vgg19": VGG19Features,
    "efficientnet_lite0": EfficientNetFeatures,
}
