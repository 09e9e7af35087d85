"""Perceptual loss on VGG19 features (Johnson et al. 2016; Wang et al. 2018)."""

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import cast

import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from losses.distances import feature_distance
from losses.objective import LossInputs
from utils.pretrained import PretrainedFile

# relu1_1, relu2_1, relu3_1, relu4_1, relu5_1 in torchvision's numbering, and pix2pixHD's weights of their L1
LAYERS = (1, 6, 11, 20, 29)
LAYER_WEIGHTS = (1 / 32, 1 / 16, 1 / 8, 1 / 4, 1.0)
VGG19 = PretrainedFile(
    url="https://download.pytorch.org/models/vgg19-dcbb9e9d.pth",
    what="loss.vgg needs VGG19's weights",
    megabytes=548,
    without="loss.vgg=0",
)


def vgg_loss(*, activation_checkpointing: bool) -> "PerceptualLoss":
    """Return the distance of VGG19's features, with pix2pixHD's layers and weights.

    Raises:
        WeightsError: VGG19's weights are not available.
    """
    return PerceptualLoss(VGG19Features(load_vgg19_weights(), activation_checkpointing=activation_checkpointing))


class PerceptualLoss(nn.Module):
    """Weighted L1 between the features of two images.

    network: Maps (N, 3 or 1, H, W) images in [-1, 1] to a list of features.
    layer_weights: Weight of each feature.
    """

    def __init__(self, network: nn.Module, layer_weights: Sequence[float] = LAYER_WEIGHTS) -> None:
        super().__init__()
        self.network = network
        self.layer_weights = tuple(layer_weights)

    def forward(self, translation: LossInputs) -> Tensor:
        """Return the distance of images and targets, 0-d, float32 under autocast. Targets get no gradient."""
        with torch.no_grad():
            target_features = self.network(translation.target)
        weights = translation.weights.of_images if translation.weights else None
        layers = zip(self.network(translation.fake), target_features, self.layer_weights, strict=True)
        return torch.stack([weight * feature_distance(f, t, weights) for f, t, weight in layers]).sum()


class VGG19Features(nn.Module):
    """The frozen layers of VGG19 whose activations the loss compares.

    state_dict: VGG19's weights with torchvision's names.
    activation_checkpointing: Whether to recompute activations between the compared layers in the backward pass.
    """

    def __init__(self, state_dict: Mapping[str, Tensor], *, activation_checkpointing: bool = False) -> None:
        super().__init__()
        layers = _layers()
        layers.load_state_dict({key: state_dict[f"features.{key}"] for key in layers.state_dict()}, assign=True)
        bounds = [0, *(layer + 1 for layer in LAYERS)]
        self.slices = nn.ModuleList(layers[start:end] for start, end in pairwise(bounds))
        self.activation_checkpointing = activation_checkpointing
        self.eval().requires_grad_(False)

    def forward(self, images: Tensor) -> list[Tensor]:
        """Return the features of (N, 3 or 1, H, W) images in [-1, 1]: (N, C_l, H_l, W_l) for each of the 5 layers.

        As in pix2pixHD, the images are not normalized by ImageNet's statistics.
        """
        x, features = images.expand(-1, 3, -1, -1), []
        for part in self.slices:
            if self.activation_checkpointing and torch.is_grad_enabled():
                x = checkpoint(part, x, use_reentrant=False, preserve_rng_state=False)
            else:
                x = part(x)
            features.append(x)
        return features


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
