"""Pixel accuracy and intersection over union of translated label maps."""

from dataclasses import dataclass

import torch
from torch import Tensor

from utils.label_colors import LabelColors

_LISTED = 40  # maximum number of classes in a log line


def confusion(fake: Tensor, target: Tensor, colors: LabelColors) -> Tensor:
    """Return the (K, K) int64 confusion matrix of two (3, H, W) uint8 label pictures.

    Rows are the target's classes, columns the translation's classes. Ignored target pixels are left out.
    """
    found, wanted = colors.classes_of(fake, may_ignore=False), colors.classes_of(target, may_ignore=True)
    n_classes = colors.n_classes
    counted = wanted != n_classes
    return torch.bincount(wanted[counted] * n_classes + found[counted], minlength=n_classes**2).view(n_classes, -1)


@dataclass(frozen=True)
class ClassScore:
    """The scores of a class, each 0 to 1.

    iou: Intersection over union; None if neither targets nor translations have the class.
    accuracy: Share of the class's target pixels that are correct in translations; None if it has no target pixels.
    share: Share of the target pixels that have the class.
    """

    iou: float | None
    accuracy: float | None
    share: float


def label_scores(confusion: Tensor, names: tuple[str, ...]) -> tuple[dict[str, float], dict[str, ClassScore]]:
    """Return metrics of a (K, K) confusion matrix by name, and scores by class, as in Cityscapes.

    pixel_accuracy: Share of the target pixels that are translated correctly, 0 to 1. mean_iou: Mean IoU, 0 to 1, over
        the classes in targets or translations (Long et al. 2015). Both dicts are empty if no target pixel has a class.
    """
    matrix = confusion.double()
    right, wanted, found = matrix.diagonal(), matrix.sum(1), matrix.sum(0)
    total = wanted.sum()
    if total == 0:
        return {}, {}
    iou, accuracy = right / (wanted + found - right), right / wanted
    classes = {
        name: ClassScore(iou=_number(iou[k]), accuracy=_number(accuracy[k]), share=float(wanted[k] / total))
        for k, name in enumerate(names)
    }
    figures = {"pixel_accuracy": float(right.sum() / total), "mean_iou": float(iou[iou.isfinite()].mean())}
    return figures, classes


def class_table(classes: dict[str, ClassScore]) -> list[str]:
    """Return a text table of the scores of each class, as lines; empty without classes."""
    width = max(map(len, ["class", *classes]))
    lines = [f"{'class':<{width}}  {'IoU':>6}  {'accuracy':>8}  {'share':>7}"]
    for name, score in classes.items():
        lines.append(f"{name:<{width}}  {_cell(score.iou):>6}  {_cell(score.accuracy):>8}  {score.share:>7.2%}")
    return lines if classes else []


def class_line(classes: dict[str, ClassScore]) -> str:
    """Return one line with the IoU of the classes in targets or translations."""
    scored = [f"{name} {score.iou:.3f}" for name, score in classes.items() if score.iou is not None]
    return "  ".join(scored[:_LISTED]) + (f"  and {len(scored) - _LISTED} more" if len(scored) > _LISTED else "")


def _number(value: Tensor) -> float | None:
    return float(value) if torch.isfinite(value) else None


def _cell(value: float | None) -> str:
    return "-" if value is None else f"{value:.3f}"
