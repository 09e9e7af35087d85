"""Perceptual loss on VGG19 features (Johnson et al. 2016; Wang et al. 2018)."""

from collections.abc import Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import cast

import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint
from torchvision.models import VGG19_Weights, vgg19

from losses.feature_distance import feature_distance
from losses.kept_features import KeptFeatures
from utils.pretrained import PretrainedFile

# relu1_1, relu2_1, relu3_1, relu4_1, relu5_1 in torchvision's numbering, and pix2pixHD's weights of their L1
LAYERS = (1, 6, 11, 20, 29)
LAYER_WEIGHTS = (1 / 32, 1 / 16, 1 / 8, 1 / 4, 1.0)
IMAGENET_MEAN = (0.485, 0.456, 0.406)
IMAGENET_STD = (0.229, 0.224, 0.225)
VGG19 = PretrainedFile(
    url=VGG19_Weights.IMAGENET1K_V1.url,
    what="loss.vgg needs VGG19's weights",
    megabytes=548,
    setting="loss.vgg_weights",
    without="loss.vgg=0",
)


class VGG19Features(nn.Module):
    """The activations of VGG19 that the loss compares; frozen."""

    def __init__(
        self, state_dict: Mapping[str, Tensor], *, imagenet_normalization: bool = False, recomputes: bool = False
    ) -> None:
        """Take VGG19's convolutions from `state_dict`, in torchvision's names.

        recomputes: keep only the activations that the loss compares, and compute the others again in the backward pass.
        """
        super().__init__()
        with torch.device("meta"):  # 548 MB that would only be overwritten or dropped
            layers = vgg19().features[: LAYERS[-1] + 1]
        prefix = "features."
        wanted = {key: state_dict[prefix + key] for key in layers.state_dict()}
        layers.load_state_dict(wanted, assign=True)
        bounds = [0, *(layer + 1 for layer in LAYERS)]
        self.slices = nn.ModuleList(cast(nn.Sequential, layers)[start:end] for start, end in pairwise(bounds))
        self.imagenet_normalization = imagenet_normalization
        self.recomputes = recomputes
        self.eval().requires_grad_(False)

    def forward(self, images: Tensor) -> list[Tensor]:
        """Features of (N, 3 or 1, H, W) images in [-1, 1], one (N, C_l, H_l, W_l) for each of the 5 layers."""
        images = images.expand(-1, 3, -1, -1)
        x = imagenet_normalized(images) if self.imagenet_normalization else images
        features = []
        for part in self.slices:
            if self.recomputes and torch.is_grad_enabled():
                x = checkpoint(part, x, use_reentrant=False, preserve_rng_state=False)
            else:
                x = part(x)
            features.append(x)
        return features


def imagenet_normalized(images: Tensor) -> Tensor:
    """(N, 3, H, W) in [-1, 1] -> mean 0 and deviation 1 over ImageNet, as torchvision's networks were trained."""
    channels = zip(images.split(1, dim=1), IMAGENET_MEAN, IMAGENET_STD, strict=True)
    # numbers, not tensors: to bring these to a GPU would make the host wait for it
    return torch.cat([((channel + 1) / 2 - mean) / std for channel, mean, std in channels], dim=1)


class PerceptualLoss(nn.Module):
    """Weighted L1 between the features of two images.

    network: gives a list of features for (N, 3, H, W) images in [-1, 1]; VGG19Features, or a stand-in.
    layer_weights: one weight for each of them.
    kept_bytes: most that is kept of targets' features, by their names, for targets that come again unchanged.
    """

    def __init__(self, network: nn.Module, layer_weights: Sequence[float] = LAYER_WEIGHTS, kept_bytes: int = 0) -> None:
        super().__init__()
        self.network = network
        self.layer_weights = tuple(layer_weights)
        self._kept = KeptFeatures(network, kept_bytes) if kept_bytes else None

    def forward(self, fake: Tensor, target: Tensor, names: Sequence[str] = ()) -> Tensor:
        """0-d loss of (N, 3, H, W) images in [-1, 1]; no gradient reaches `target`. float32 under autocast."""
        with torch.no_grad():
            target_features = self._kept(target, names) if self._kept else self.network(target)
        layers = zip(self.network(fake), target_features, self.layer_weights, strict=True)
        return torch.stack([weight * feature_distance(f, t) for f, t, weight in layers]).sum()


def load_vgg19_weights(path: Path | None) -> Mapping[str, Tensor]:
    """torchvision's state dict of VGG19, from a local file or from torch's cache, downloading it where missing.

    Raises:
        WeightsError: the file cannot be read or is of another network, or the download fails.
    """
    weights = VGG19.load(path)
    with torch.device("meta"):
        layers = vgg19().features[: LAYERS[-1] + 1].state_dict()
    weights.require({f"features.{key}": value.shape for key, value in layers.items()})
    return weights.tensors
