"""LPIPS: the perceptual distance of two images, by a network's activations (Zhang et al. 2018)."""

from typing import Any

import torch
from torch import Tensor

from metrics.image_metrics import extended
from metrics.torchmetrics_internals import lpips_network
from utils.pretrained import PretrainedFile

ALEXNET = PretrainedFile(
    url="https://download.pytorch.org/models/alexnet-owt-7be5be79.pth",
    what="lpips of metrics.extra needs AlexNet's weights",
    megabytes=233,
    without="leaving lpips out of metrics.extra",
)
MIN_SIDE = 32  # pixels, which AlexNet's last layer reduces to one


class Lpips:
    """LPIPS 0.1 with AlexNet; the weights of its linear layers are part of torchmetrics."""

    def __init__(self, device: torch.device) -> None:
        """Read AlexNet's weights from torch's cache.

        Raises:
            WeightsError: the weights cannot be read or downloaded.
            ConfigError: the installed torchmetrics has no LPIPS.
        """
        weights = ALEXNET.load()
        network, trunk = lpips_network()
        weights.require({name: value.shape for name, value in trunk.items()})
        for name, value in trunk.items():
            value.copy_(weights.tensors[name])
        self._network = network.to(device)
        self._device = device
        self.protocol: dict[str, Any] = {
            "network": "AlexNet, linear layers of version 0.1",
            "weights": weights.path.name,
            "weights_sha256": weights.sha256,
        }

    @torch.inference_mode()
    def __call__(self, fake: Tensor, target: Tensor) -> float:
        """Return the distance of two (3, H, W) uint8 images, from 0; sides below 32 pixels continue their edges."""
        images = (extended(image[None].to(self._device).float() / 127.5 - 1, MIN_SIDE) for image in (fake, target))
        return float(self._network(*images))
