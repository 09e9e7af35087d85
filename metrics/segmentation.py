"""How well label maps were told from photos: pixel accuracy and intersection over union."""

from dataclasses import dataclass

import torch
from torch import Tensor
from torchmetrics.functional.classification import multiclass_confusion_matrix

from metrics.label_colors import LabelColors


def confusion(fake: Tensor, target: Tensor, colors: LabelColors) -> Tensor:
    """(K, K) int64: pixels of two (3, H, W) uint8 label pictures, by the target's class and then the translated one's.

    What counts for no class in the target is left out.
    """
    made, wanted = colors.classes_of(fake, may_ignore=False), colors.classes_of(target, may_ignore=True)
    n_classes = colors.n_classes
    return multiclass_confusion_matrix(made, wanted, num_classes=n_classes, ignore_index=n_classes).cpu()


@dataclass(frozen=True)
class ClassScore:
    """One class. iou: intersection over union; accuracy: found of what there is; share: of the targets' pixels.

    iou is None where neither targets nor translations have the class, accuracy where the targets have not.
    """

    iou: float | None
    accuracy: float | None
    share: float


@dataclass(frozen=True)
class LabelScores:
    """Of all pixels of some images together, as FCN (Long et al. 2015) and Cityscapes count.

    mean_iou: over the classes that targets or translations have.
    """

    pixel_accuracy: float
    mean_iou: float
    classes: dict[str, ClassScore]


def label_scores(confusion: Tensor, names: tuple[str, ...]) -> LabelScores | None:
    """The scores of a (K, K) confusion matrix; None where no pixel of the targets has a class."""
    matrix = confusion.double()
    right, wanted, made = matrix.diagonal(), matrix.sum(1), matrix.sum(0)
    total = wanted.sum()
    if total == 0:
        return None
    iou, accuracy = right / (wanted + made - right), right / wanted
    classes = {
        name: ClassScore(iou=_number(iou[k]), accuracy=_number(accuracy[k]), share=float(wanted[k] / total))
        for k, name in enumerate(names)
    }
    return LabelScores(
        pixel_accuracy=float(right.sum() / total), mean_iou=float(iou[iou.isfinite()].mean()), classes=classes
    )


def class_table(classes: dict[str, ClassScore]) -> list[str]:
    """The scores of each class as lines of text; none where there are none."""
    if not classes:
        return []
    width = max(map(len, ["class", *classes]))
    lines = [f"{'class':<{width}}  {'IoU':>6}  {'accuracy':>8}  {'share':>7}"]
    for name, score in classes.items():
        lines.append(f"{name:<{width}}  {_cell(score.iou):>6}  {_cell(score.accuracy):>8}  {score.share:>7.2%}")
    return lines


def _number(value: Tensor) -> float | None:
    return float(value) if torch.isfinite(value) else None


def _cell(value: float | None) -> str:
    return "-" if value is None else f"{value:.3f}"
