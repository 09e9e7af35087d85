"""How close translated images are to their targets, and how close a constant colour per class would be."""

from collections.abc import Sequence
from dataclasses import astuple, dataclass
from typing import cast

import torch
import torch.nn.functional as F
from torch import Tensor
from torchmetrics.functional.image import peak_signal_noise_ratio, structural_similarity_index_measure

MAX_PSNR = 100.0  # dB, in place of infinity for equal images
_SSIM_WINDOW = 11  # pixels


@dataclass(frozen=True)
class ImageMetrics:
    """A translated image against its target, or the mean of such figures over many.

    l1: mean absolute difference, 0 to 1 for black against white; lower is better.
    psnr: peak signal-to-noise ratio in dB, at most MAX_PSNR; higher is better.
    ssim: structural similarity (Wang et al. 2004; Gaussian window of 11 pixels, sigma 1.5), up to 1.
    gradient, target_gradient: mean gradient magnitude of the translated image and of the target, 0 to 1.
    """

    l1: float
    psnr: float
    ssim: float
    gradient: float
    target_gradient: float

    @property
    def sharpness(self) -> float:
        """Gradient magnitude over that of the target: below 1 blurred, above 1 noisy."""
        return self.gradient / max(self.target_gradient, 1e-6)


def image_metrics(fake: Tensor, target: Tensor) -> ImageMetrics:
    """Compare two (3, H, W) uint8 images; for SSIM, sides smaller than its window are extended by their edges."""
    fake, target = (image.unsqueeze(0).float() / 255 for image in (fake, target))
    missing = [max(0, _SSIM_WINDOW - side) for side in fake.shape[-2:]]
    wide_fake, wide_target = (
        F.pad(image, (0, missing[1], 0, missing[0]), mode="replicate") for image in (fake, target)
    )
    return ImageMetrics(
        l1=float((fake - target).abs().mean()),
        psnr=min(MAX_PSNR, float(peak_signal_noise_ratio(fake, target, data_range=1.0))),
        ssim=float(cast(Tensor, structural_similarity_index_measure(wide_fake, wide_target, data_range=1.0))),
        gradient=float(mean_gradient_magnitude(fake)),
        target_gradient=float(mean_gradient_magnitude(target)),
    )


def mean_metrics(metrics: Sequence[ImageMetrics]) -> ImageMetrics:
    """The mean of each figure; hence the sharpness of the mean is that of all images together."""
    return ImageMetrics(*torch.tensor([astuple(m) for m in metrics], dtype=torch.float64).mean(0).tolist())


def mean_gradient_magnitude(images: Tensor) -> Tensor:
    """Mean Euclidean norm of the forward differences of (N, C, H, W) images, over all pixels; a 0-d tensor."""
    across = images[..., :-1, 1:] - images[..., :-1, :-1]
    down = images[..., 1:, :-1] - images[..., :-1, :-1]
    return (across.square() + down.square()).sqrt().mean()


class ConstantColorFloor:
    """The mean L1 that the best constant colour per class reaches on the very images it is chosen from.

    It knows the targets, so no model without texture or light can beat it; every trained model must. Each image has
    the same weight, whatever its size.
    """

    def __init__(self, n_classes: int) -> None:
        """`n_classes` of the label maps; 0 for RGB sources, which make one class of all pixels."""
        self._histograms = torch.zeros(max(1, n_classes) + 1, 3, 256, dtype=torch.float64)
        self._n_classes = n_classes
        self._n_images = 0

    def add(self, source: Tensor, target: Tensor) -> None:
        """Add a sample: (1, H, W) class ids or a (3, H, W) image, and its (3, H, W) uint8 target."""
        ids = source[0].long() if self._n_classes else torch.zeros_like(target[0], dtype=torch.int64)
        for channel in range(3):
            bins = ids * 256 + target[channel].long()
            counts = torch.bincount(bins.flatten(), minlength=self._histograms.shape[0] * 256)
            self._histograms[:, channel] += counts.view(-1, 256) / ids.numel()
        self._n_images += 1

    def add_all(self, other: "ConstantColorFloor") -> None:
        """Add the samples that another floor of the same classes has been given."""
        self._histograms += other._histograms
        self._n_images += other._n_images

    def l1(self) -> float:
        """Mean absolute difference, 0 to 1, of the best constant colours, which are the medians of each class."""
        levels = torch.arange(256, dtype=torch.float64)
        below = self._histograms.cumsum(-1)
        medians = (below < below[..., -1:] / 2).sum(-1)  # (K + 1, 3)
        distances = (levels - medians.unsqueeze(-1)).abs()
        return float((self._histograms * distances).sum() / (3 * 255 * self._n_images))
