"""What is measured of translated images that have targets: of each by itself, and of all together."""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import torch
import torchmetrics
from torch import Tensor

from metrics.fid import KID_SUBSET_SIZE, KID_SUBSETS, Inception, fid, kid
from metrics.image_metrics import SSIM_WINDOW, image_metrics
from metrics.label_colors import LabelColors
from metrics.lpips import Lpips
from metrics.segmentation import ClassScore, LabelScores, confusion, label_scores

LOWER_IS_BETTER = frozenset({"l1", "lpips", "fid", "kid"})
OF_SETS = ("fid", "kid")  # rather than of pairs
OF_LABELS = ("pixel_accuracy", "mean_iou")
TITLES = {
    "l1": "L1",
    "psnr": "PSNR",
    "ssim": "SSIM",
    "ms_ssim": "MS-SSIM",
    "sharpness": "sharpness",
    "lpips": "LPIPS",
    "fid": "FID",
    "kid": "KID",
    "pixel_accuracy": "pixel accuracy",
    "mean_iou": "mean IoU",
}


@dataclass(frozen=True)
class Measurement:
    """A translated image against its target.

    figures: by name, those of ImageMetrics, and sharpness; lpips, pixel_accuracy, mean_iou where they are wanted.
    confusion: (K, K) of label maps, sparse. features: (2, 2048), Inception's of the translated image and of the target.
    """

    figures: dict[str, float]
    confusion: Tensor | None = None
    features: Tensor | None = None


@dataclass(frozen=True)
class Summary:
    """What is told of several images.

    mean: the mean of each figure of an image; but sharpness is that of all images together.
    whole: what has no mean: fid, kid, kid_deviation, and pixel_accuracy and mean_iou of all pixels together.
    classes: of label maps, by their names.
    """

    mean: dict[str, float]
    whole: dict[str, float]
    classes: dict[str, ClassScore]

    @property
    def figures(self) -> dict[str, float]:
        """Those with a title, by name."""
        return shown(self.mean | self.whole)

    def __str__(self) -> str:
        return "  ".join(f"{TITLES[name]} {value:.4g}" for name, value in self.figures.items())


@dataclass(frozen=True)
class Evaluator:
    """Measures what it has the networks for, beside what is always measured.

    sets: which of OF_SETS are wanted, with `inception`.
    """

    lpips: Lpips | None = None
    inception: Inception | None = None
    sets: Sequence[str] = ()
    label_colors: LabelColors | None = None

    def measure(self, fake: Tensor, target: Tensor) -> Measurement:
        """Compare two (3, H, W) uint8 images."""
        figures = asdict(image_metrics(fake, target))
        figures["sharpness"] = sharpness(figures)
        if self.lpips:
            figures["lpips"] = self.lpips(fake, target)
        pixels = None
        if self.label_colors:
            pixels = confusion(fake, target, self.label_colors)
            figures |= _label_figures(label_scores(pixels, self.label_colors.names))
        features = torch.stack([self.inception(fake), self.inception(target)]) if self.inception else None
        return Measurement(figures, None if pixels is None else pixels.to_sparse(), features)

    def summarize(self, measurements: Sequence[Measurement]) -> Summary:
        """All of at least one image together."""
        names = dict.fromkeys(name for measurement in measurements for name in measurement.figures)
        mean = {name: _mean([m.figures[name] for m in measurements if name in m.figures]) for name in names}
        mean["sharpness"] = sharpness(mean)
        whole: dict[str, float] = {}
        classes: dict[str, ClassScore] = {}
        confusions = [m.confusion for m in measurements if m.confusion is not None]
        if self.label_colors and confusions:
            pixels = sum(confusions[1:], start=confusions[0]).to_dense()
            scores = label_scores(pixels, self.label_colors.names)
            whole |= _label_figures(scores)
            classes = scores.classes if scores else {}
        features = [m.features for m in measurements if m.features is not None]
        if len(features) > 1:  # one alone has no spread
            whole |= self._set_figures(torch.stack(features, dim=1))
        return Summary(mean, whole, classes)

    def _set_figures(self, features: Tensor) -> dict[str, float]:
        fakes, targets = features
        figures = {"fid": fid(fakes, targets)} if "fid" in self.sets else {}
        if "kid" in self.sets:
            figures["kid"], figures["kid_deviation"] = kid(fakes, targets)
        return figures

    @property
    def protocol(self) -> dict[str, Any]:
        """How the figures are made, for who wants to compare them with others."""
        told: dict[str, Any] = {
            "compared": "8-bit RGB, at the size of the translated image",
            "ssim": f"Gaussian window of {SSIM_WINDOW} pixels, sigma 1.5, edges reflected, mean of the channels",
            "ms_ssim": "five scales; fewer, with their weights scaled to 1, where the shorter side is below 176 pixels",
            "torch": torch.__version__,
            "torchmetrics": torchmetrics.__version__,
        }
        if self.lpips:
            told["lpips"] = self.lpips.protocol
        if self.inception:
            told["inception"] = self.inception.protocol
        if "kid" in self.sets:
            told["kid"] = f"polynomial kernel of degree 3, {KID_SUBSETS} subsets of up to {KID_SUBSET_SIZE} images"
        if self.label_colors:
            told["labels"] = {
                "classes": f"nearest colour of {self.label_colors.origin}, {self.label_colors.n_classes} classes",
                "colors_sha256": hashlib.sha256(self.label_colors.colors.numpy().tobytes()).hexdigest(),
            }
        return told


def shown(figures: Mapping[str, float]) -> dict[str, float]:
    """Those that have a title, in the order of the titles."""
    return {name: figures[name] for name in TITLES if name in figures}


def sharpness(figures: Mapping[str, float]) -> float:
    """Gradient magnitude over that of the target: below 1 blurred, above 1 noisy."""
    return figures["gradient"] / max(figures["target_gradient"], 1e-6)


def _label_figures(scores: LabelScores | None) -> dict[str, float]:
    return {"pixel_accuracy": scores.pixel_accuracy, "mean_iou": scores.mean_iou} if scores else {}


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)
