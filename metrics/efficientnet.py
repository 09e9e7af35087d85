"""Features of EfficientNet-Lite2 for the perceptual distance, FID and KID. The weights come from a pip package."""

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from utils.efficientnet_lite import COMPARED, LITE2, efficientnet_lite, normalized_squares

_SIDE = LITE2.image_side


class PerceptualDistance:
    """Squared distance of normalized features, like unweighted LPIPS. Raises WeightsError if weights are missing."""

    def __init__(self, device: torch.device) -> None:
        self._network, self._device = efficientnet_lite(LITE2).to(device), device
        self.protocol: dict[str, Any] = {
            "network": "EfficientNet-Lite2, stem and stages 1, 2, 3, 5 and 7",
            "resizing": f"bilinear to a shorter side of {_SIDE} pixels; larger images are not resized",
            **LITE2.facts,
        }

    @torch.inference_mode()
    def __call__(self, fake: Tensor, target: Tensor) -> float:
        """Return the distance of two (3, H, W) uint8 images."""
        x, distances = torch.stack([fake, target]).to(self._device) / 255, list[Tensor]()
        if (scale := _SIDE / min(x.shape[-2:])) > 1:
            x = F.interpolate(x, size=[round(scale * side) for side in x.shape[-2:]], mode="bilinear")
        for number, part in enumerate(self._network[: COMPARED[-1] + 1]):
            x = part(x)
            if number in COMPARED:
                distances.append(normalized_squares(x[:1], x[1:]).mean())
        return float(torch.stack(distances).mean())


class PooledFeatures:
    """Features for FID and KID: means of the head's 1280 channels. Raises WeightsError if weights are missing."""

    def __init__(self, device: torch.device) -> None:
        self._network, self._device = efficientnet_lite(LITE2).to(device), device
        self.protocol: dict[str, Any] = {
            "network": "EfficientNet-Lite2, 1280 features",
            "resizing": f"bilinear to {_SIDE}x{_SIDE}, with antialiasing",
            **LITE2.facts,
        }

    @torch.inference_mode()
    def __call__(self, image: Tensor, number: int = 0) -> Tensor:
        """Return the features of a (3, H, W) uint8 image, (1280,) float32 on the CPU."""
        x = F.interpolate(image[None].to(self._device) / 255, size=(_SIDE, _SIDE), mode="bilinear", antialias=True)
        return self._network(x).mean(dim=(0, 2, 3)).cpu()
