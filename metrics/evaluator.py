"""Compute the metrics of translated images, for single images and for sets of images."""

import hashlib
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.metadata import version
from typing import Any, Self

import torch
from torch import Tensor

from metrics import METRICS, with_features
from metrics.best_shift import figures_after_shift
from metrics.image_metrics import Bounds, as_floats, image_metrics, weighted_mean
from metrics.metric import FeatureNetwork, ImageComparison, PairMetric, SetMetric
from metrics.segmentation import ClassScore, confusion, label_scores
from utils.label_colors import LabelColors, read_label_colors
from utils.structural_similarity import WINDOW

TITLES = {name: metric.title for name, metric in METRICS.items()}

Features = Mapping[str, Tensor]
"""Features of an image by name of the feature network."""


@dataclass(frozen=True)
class Measurement:
    """The figures (metric values) of a translated image, its (K, K) confusion matrix, and features for set metrics."""

    figures: dict[str, float]
    confusion: Tensor | None = None
    features: Features = field(default_factory=dict)
    target_features: Features = field(default_factory=dict)


@dataclass(frozen=True)
class Summary:
    """The figures of a set of images.

    mean: Mean of each figure over the images. Sharpness is computed from the mean gradients instead.
    whole: Figures of the whole set, with their deviations. classes: Scores by class, for label maps.
    """

    mean: dict[str, float]
    whole: dict[str, float]
    classes: dict[str, ClassScore]

    @property
    def figures(self) -> dict[str, float]:
        """All figures that METRICS lists, by name."""
        return shown(self.mean | self.whole)

    def __str__(self) -> str:
        return "  ".join(f"{TITLES[name]} {value:.4g}" for name, value in self.figures.items())


@dataclass(frozen=True)
class References:
    """Reference values for the set metrics of translations.

    floor: Figures of the untranslated sources; empty if sources and targets differ in channels.
    ceiling: Figures of one half of the real images, compared with the other half.
    """

    floor: dict[str, float]
    ceiling: dict[str, float]

    def __str__(self) -> str:
        found = {"sources": self.floor, "one half of the targets against the other": self.ceiling}
        texts = {
            title: [f"{figures[name]:.4g} of {what}" for what, figures in found.items() if name in figures]
            for name, title in TITLES.items()
        }
        return "; ".join(f"{title} {', '.join(parts)}" for title, parts in texts.items() if parts)


@dataclass(frozen=True)
class Evaluator:
    """Computes the metrics that need no network, and the optional metrics in its fields.

    comparisons: Optional metrics of pairs by name. sets: Metrics of sets by name.
    feature_networks: Networks for `sets`, by name of the network.
    label_colors: Class colours, if images are label maps.
    bounds: Value range of images that are not 8-bit RGB.
    device: Device that computes `image_metrics`.
    shift_reach: Largest shift for the figures of shifted images, in pixels. 0: do not compute these figures.
    """

    comparisons: Mapping[str, ImageComparison] = field(default_factory=dict)
    sets: Mapping[str, SetMetric] = field(default_factory=dict)
    feature_networks: Mapping[str, FeatureNetwork] = field(default_factory=dict)
    label_colors: LabelColors | None = None
    bounds: Bounds | None = None
    device: torch.device = field(default_factory=lambda: torch.device("cpu"))
    shift_reach: int = 0

    @classmethod
    def load(
        cls,
        extra: Collection[str],
        label_colors: str | None,
        device: torch.device,
        n_images: int = 0,
        features: str = "inception",
    ) -> Self:
        """Return an evaluator with the optional metrics in `extra`. Their networks are on `device`.

        label_colors: "cityscapes", "cmp_facades", a YAML file, or None if images are not label maps.
        n_images: Approximate number of images in a set.
        features: Network for FID and KID, a key of metrics.FEATURES.

        Raises:
            WeightsError: The weights of a network cannot be read or downloaded.
            ConfigError: A package is missing, or the file of label colours is invalid.
        """
        wanted = {name: with_features(metric, features) for name, metric in METRICS.items() if name in extra}
        pairs = {name: metric for name, metric in wanted.items() if isinstance(metric, PairMetric)}
        sets = {name: metric for name, metric in wanted.items() if isinstance(metric, SetMetric)}
        sources = {metric.features.name: metric.features for metric in sets.values()}
        return cls(
            comparisons={name: metric.load(device) for name, metric in pairs.items()},
            sets=sets,
            feature_networks={name: source.load(device, n_images) for name, source in sources.items()},
            label_colors=read_label_colors(label_colors) if label_colors else None,
            device=device,
        )

    def measure(self, fake: Tensor, target: Tensor, weights: Tensor | None = None, number: int = 0) -> Measurement:
        """Compare a translated image with its target. Both are (3, H, W) uint8, or (C, H, W) values if bounds are set.

        number: Number of the image in its set.
        weights: Pixel weights, (1, H, W) float32; None: compute no weighted figures.
        """
        features, target_features = self.features(fake, number), self.features(target, number)
        seen = (self.bounds.shares(fake), self.bounds.shares(target)) if self.bounds else (fake, target)
        ours, theirs = (as_floats(image.to(self.device)) for image in seen)
        figures = image_metrics(ours, theirs, weights)
        figures |= figures_after_shift(ours, theirs, self.shift_reach) if self.shift_reach else {}
        if self.bounds:
            errors = (fake.double() - target.double()).abs()
            figures["mae"] = float(errors.mean())
            if weights is not None and weights.any():
                figures["mae_weighted"] = float(weighted_mean(errors[None], weights[None]))
            fake, target = self.levels(fake), self.levels(target)
        figures["sharpness"] = sharpness(figures)
        figures |= {name: compare(fake, target) for name, compare in self.comparisons.items()}
        pixels = None
        if self.label_colors:
            pixels = confusion(fake, target, self.label_colors)
            figures |= label_scores(pixels, self.label_colors.names)[0]
        return Measurement(figures, None if pixels is None else pixels.to_sparse(), features, target_features)

    def features(self, image: Tensor, number: int) -> Features:
        """Return the features of an image by network. number: Number of the image in its set."""
        return {name: network(self.levels(image), number) for name, network in self.feature_networks.items()}

    def levels(self, image: Tensor) -> Tensor:
        """Return `image` as uint8, for networks and the constant-colour baseline."""
        return self.bounds.levels(image) if self.bounds else image

    def summarize(self, measurements: Sequence[Measurement]) -> Summary:
        """Combine the measurements of one or more images into a summary."""
        names = dict.fromkeys(name for measurement in measurements for name in measurement.figures)
        values = {name: [m.figures[name] for m in measurements if name in m.figures] for name in names}
        mean = {name: sum(numbers) / len(numbers) for name, numbers in values.items()}
        mean |= {"sharpness": sharpness(mean)} if mean else {}
        whole: dict[str, float] = {}
        classes: dict[str, ClassScore] = {}
        confusions = [m.confusion for m in measurements if m.confusion is not None]
        if self.label_colors and confusions:
            pixels = sum(confusions[1:], start=confusions[0]).to_dense()
            whole, classes = label_scores(pixels, self.label_colors.names)
        whole |= self.set_figures([m.features for m in measurements], [m.target_features for m in measurements])
        return Summary(mean, whole, classes)

    def set_figures(self, fakes: Sequence[Features], reals: Sequence[Features]) -> dict[str, float]:
        """Return the set metrics of two sets of images, with their deviations. Skip metrics that need more images."""
        figures = {}
        for name, metric in self.sets.items():
            if min(len(fakes), len(reals)) < metric.least_images:
                continue
            score = metric.score(*([features[metric.features.name] for features in of] for of in (fakes, reals)))
            figures[name] = score.value
            if score.deviation is not None:
                figures[f"{name}_deviation"] = score.deviation
        return figures

    def references(self, sources: Sequence[Features], reals: Sequence[Features]) -> References:
        """Return reference values for the set metrics of translations."""
        have_same_channels = all(sources[0][name].shape[-1] == reals[0][name].shape[-1] for name in reals[0])
        floor = self.set_figures(sources, reals) if have_same_channels else {}
        # shuffle before halving, because sorted names often alternate between two kinds of images
        order = torch.randperm(len(reals), generator=torch.Generator().manual_seed(0)).tolist()
        halves = [[reals[number] for number in order[start::2]] for start in (0, 1)]
        return References(floor, self.set_figures(*halves))

    @property
    def _compared(self) -> str:
        if self.bounds is None:
            return "8-bit RGB"
        low, high = (bound.flatten().tolist() for bound in (self.bounds.low, self.bounds.high))
        return f"values, of which {low} to {high} are 0 to 1; mae in the values' unit; networks see 8 bits of the range"

    @property
    def protocol(self) -> dict[str, Any]:
        """Description of how the figures are computed. All values can be stored as JSON."""
        protocol: dict[str, Any] = {
            "compared": f"{self._compared}, at the size of the translated image",
            "ssim": f"Gaussian window of {WINDOW} pixels, sigma 1.5, edges reflected, mean of the channels",
            "ms_ssim": "five scales; fewer, with their weights scaled to 1, where the shorter side is below 176 pixels",
            "torch": torch.__version__,
            "torchmetrics": version("torchmetrics"),
        }
        if self.shift_reach:
            protocol["shifted"] = f"after the shift up to {self.shift_reach} pixels with the least L1, without a border"
        protocol |= {name: compare.protocol for name, compare in self.comparisons.items()}
        protocol |= {name: network.protocol for name, network in self.feature_networks.items()}
        protocol |= {name: metric.protocol for name, metric in self.sets.items() if metric.protocol}
        if self.label_colors:
            protocol["labels"] = {
                "classes": f"nearest colour of {self.label_colors.origin}, {self.label_colors.n_classes} classes",
                "colors_sha256": hashlib.sha256(self.label_colors.colors.numpy().tobytes()).hexdigest(),
            }
        return protocol

    def basis(self, figure: str) -> list[Any]:
        """Return the parts of the protocol, without versions, that `figure` depends on."""
        basis: list[Any] = [self._compared, self.comparisons[figure].protocol if figure in self.comparisons else None]
        if figure in self.sets:
            basis += [self.sets[figure].protocol, self.feature_networks[self.sets[figure].features.name].protocol]
        if METRICS[figure].of == "shifted":
            basis.append(self.shift_reach)
        if METRICS[figure].of == "labels" and self.label_colors:
            basis += [self.label_colors.n_classes, self.label_colors.colors.tolist()]
        return basis


def shown(figures: Mapping[str, float]) -> dict[str, float]:
    """Return the figures that METRICS lists, in the order of METRICS."""
    return {name: figures[name] for name in TITLES if name in figures}


def sharpness(figures: Mapping[str, float]) -> float:
    """Return the gradient magnitude divided by the target's gradient magnitude. Below 1: blurred. Above 1: noisy."""
    return figures["gradient"] / max(figures["target_gradient"], 1e-6)
