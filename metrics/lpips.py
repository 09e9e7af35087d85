"""LPIPS: how far two images are apart for the eye, by a network's activations (Zhang et al. 2018)."""

from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torchmetrics.functional.image.lpips import _LPIPS
from torchvision.models import AlexNet_Weights

from metrics.image_metrics import extended
from utils.pretrained import PretrainedFile

ALEXNET = PretrainedFile(
    url=AlexNet_Weights.IMAGENET1K_V1.url,
    what="lpips of metrics.extra needs AlexNet's weights",
    megabytes=233,
    setting="metrics.alexnet_weights",
    without="leaving lpips out of metrics.extra",
)
MIN_SIDE = 32  # pixels, of which AlexNet's last layer sees one


class Lpips:
    """LPIPS in version 0.1 with AlexNet, whose linear layers come with torchmetrics."""

    def __init__(self, weights_path: Path | None, device: torch.device) -> None:
        """Read AlexNet's weights, from torch's cache where `weights_path` is None.

        Raises:
            WeightsError: they cannot be had.
        """
        weights = ALEXNET.load(weights_path)
        self._network = _LPIPS(net="alex", pnet_rand=True)
        trunk = self._network.net
        # slice2.3.weight is features.3.weight
        names = {key: f"features.{key.partition('.')[2]}" for key in trunk.state_dict()}
        weights.require({names[key]: value.shape for key, value in trunk.state_dict().items()})
        trunk.load_state_dict({key: weights.tensors[name] for key, name in names.items()})
        self._network.to(device)
        self._device = device
        self.protocol: dict[str, Any] = {
            "network": "AlexNet, linear layers of version 0.1",
            "weights": weights.path.name,
            "weights_sha256": weights.sha256,
        }

    @torch.inference_mode()
    def __call__(self, fake: Tensor, target: Tensor) -> float:
        """The distance of two (3, H, W) uint8 images, from 0; sides below 32 pixels are extended by their edges."""
        images = (extended(image[None].to(self._device).float() / 127.5 - 1, MIN_SIDE) for image in (fake, target))
        return float(self._network(*images))
