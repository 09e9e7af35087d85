"""Colours, noise and JPEG compression of a source image, as other cameras, scanners or files would have them."""

import io
from dataclasses import dataclass

import numpy as np
import torch
from PIL import Image
from torch import Tensor
from torchvision.transforms.v2 import functional as F


@dataclass(frozen=True)
class Photometric:
    """One draw; 1 and 0 are neutral.

    brightness, contrast, saturation: factors. Saturation is that of RGB images.
    hue: shift of 8-bit RGB colours, in turns of the colour circle.
    noise: standard deviation of Gaussian noise, independent in each channel, as a share of the image's range.
    noise_seed: of the noise.
    jpeg_quality: of 8-bit RGB images, 1 to 100; None: not compressed.
    """

    brightness: float = 1.0
    contrast: float = 1.0
    saturation: float = 1.0
    hue: float = 0.0
    noise: float = 0.0
    noise_seed: int = 0
    jpeg_quality: int | None = None

    def __call__(self, image: Tensor) -> Tensor:
        """Return a changed (C, H, W) image of the same dtype; the given one stays.

        Its range is 0 to 255 where it is uint8, otherwise from its lowest to its highest level. Values stay within it.
        """
        is_byte, is_rgb = image.dtype == torch.uint8, len(image) == 3
        changes_hue = self.hue != 0 and is_byte and is_rgb
        if (self.brightness, self.contrast, self.saturation, self.noise) != (1, 1, 1, 0) or changes_hue:
            low, high = (0.0, 255.0) if is_byte else (float(level) for level in image.float().aminmax())
            share = self._changed((image.float() - low) / max(high - low, 1e-30), is_rgb, changes_hue)
            levels = share * (high - low) + low
            image = levels if image.is_floating_point() else levels.round_().to(image.dtype)
        if self.jpeg_quality is not None and is_byte and is_rgb:
            image = _through_jpeg(image, self.jpeg_quality)
        return image

    def _changed(self, image: Tensor, is_rgb: bool, changes_hue: bool) -> Tensor:
        """Return (C, H, W) float32 in [0, 1], changed."""
        image = (image * self.brightness).clamp_(0, 1)
        if self.contrast != 1:
            mean = float(image.numpy().mean(dtype=np.float64))  # torch's may depend on the number of threads
            image = torch.lerp(image.new_tensor(mean), image, self.contrast).clamp_(0, 1)
        if self.saturation != 1 and is_rgb:
            image = F.adjust_saturation(image, self.saturation)
        if changes_hue:
            image = F.adjust_hue(image, self.hue)
        if self.noise:
            noise = np.random.default_rng(self.noise_seed).standard_normal(image.shape, dtype=np.float32)
            image = (image + torch.from_numpy(noise) * self.noise).clamp_(0, 1)
        return image


def _through_jpeg(image: Tensor, quality: int) -> Tensor:
    """Return a (3, H, W) uint8 RGB image as JPEG keeps it; torchvision's own coder is deprecated."""
    file = io.BytesIO()
    Image.fromarray(image.permute(1, 2, 0).contiguous().numpy()).save(file, "JPEG", quality=quality)
    with Image.open(file, formats=["JPEG"]) as compressed:
        return torch.from_numpy(np.array(compressed)).permute(2, 0, 1)
