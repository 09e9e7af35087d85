"""OASIS's losses: the discriminator segments real and translated images (Schönfeld et al. 2021, section 3.1)."""

from dataclasses import dataclass

import torch
from torch import Tensor

from losses.objective import DiscriminatorLossInputs
from utils.precision import at_least_float32


@dataclass(frozen=True)
class SegmentationLoss:
    """Maps logits (N, 1 + K, H, W) to the mean of a cross entropy over the pixels, 0-d, float32 under autocast.

    Logit 0 is that of translated images, logit 1 + c that of class c in real ones. The labels are the first K channels
    of a condition (N, C, H, W): one-hot, or the shares of classes where label maps are reduced to the size of the
    target. Pixels without a class count 0, and as pixels in the mean.

    class_balance: whether rare classes weigh more, inversely to their pixels in the batch (equation 2).
    """

    class_balance: bool = True

    def real(self, logits: Tensor, source: Tensor) -> Tensor:
        """Return the loss on real images, small where the logits recognise the classes.

        On translated images it is the generator's loss: they are to pass for real ones of their classes.
        """
        labels = at_least_float32(labels_of(source, logits))
        weighted = labels * class_weights(labels) if self.class_balance else labels
        logits = at_least_float32(logits)
        distances = logits.logsumexp(dim=1, keepdim=True) - logits[:, 1:]
        return (weighted * distances).sum(dim=1).mean()

    def fake(self, logits: Tensor) -> Tensor:
        """Return the discriminator's loss on translated images, small where it recognises them; without weights."""
        logits = at_least_float32(logits)
        return (logits.logsumexp(dim=1) - logits[:, 0]).mean()


def labels_of(source: Tensor, logits: Tensor) -> Tensor:
    """Return the one-hot labels (N, K, H, W) among the channels of a condition, for logits (N, 1 + K, H, W)."""
    return source[:, : logits.shape[1] - 1]


def class_weights(labels: Tensor) -> Tensor:
    """Return the weights of the classes, (K, 1, 1), of one-hot labels (N, K, H, W); 0 for those that are absent.

    The pixels of the batch, divided by those of the class and by the number of classes that are there.
    """
    n_pixels = labels.sum(dim=(0, 2, 3))
    n_present = (n_pixels > 0).sum().clamp_min(1)
    weights = labels[:, 0].numel() / (n_present * n_pixels.clamp_min(1))
    return (weights * (n_pixels > 0))[:, None, None]


@dataclass(frozen=True)
class SegmentationObjective:
    """Half the sum of the losses on translated and real images, and of LabelMix by its weight.

    OASIS takes all of the sum, from which Adam's steps differ by its eps alone.

    labelmix: weight of LabelMix beside the other two; 10 in OASIS, 5 on Cityscapes.
    """

    adversarial: SegmentationLoss
    labelmix: float = 0.0

    def __call__(self, inputs: DiscriminatorLossInputs) -> dict[str, Tensor]:
        """Return the losses by name, unweighted, and `total`."""
        (fake_logits,), (real_logits,) = inputs.fake_logits, inputs.real_logits
        terms = {
            "fake": self.adversarial.fake(fake_logits),
            "real": self.adversarial.real(real_logits, inputs.source),
        }
        total = terms["fake"] + terms["real"]
        if self.labelmix:
            mask = draw_mask(labels_of(inputs.source, real_logits))
            (mixed_logits,) = inputs.discriminate_mix(mask)
            terms["labelmix"] = labelmix_loss(mask, mixed=mixed_logits, fake=fake_logits, real=real_logits)
            total = total + self.labelmix * terms["labelmix"]
        return {**terms, "total": 0.5 * total}


def draw_mask(labels: Tensor) -> Tensor:
    """Draw LabelMix's mask for one-hot labels (N, K, H, W): (N, 1, H, W) bool, True for the real image.

    All pixels of a class in the batch have one draw, and so have all without a class. The draws come from torch's
    generator of the device.
    """
    return mask_of(labels, torch.rand(labels.shape[1] + 1, device=labels.device) < 0.5)


def mask_of(labels: Tensor, draws: Tensor) -> Tensor:
    """Return the mask of one-hot labels (N, K, H, W) by draws (K + 1,) bool, the last for pixels without a class.

    The draws are a table. OASIS relabels a map in place, class by class, so that one which has become 1 is drawn again
    with class 1.
    """
    n_classes = labels.shape[1]
    classes = torch.where(labels.amax(dim=1, keepdim=True) > 0, labels.argmax(dim=1, keepdim=True), n_classes)
    return draws[classes]


def labelmix_loss(mask: Tensor, *, mixed: Tensor, fake: Tensor, real: Tensor) -> Tensor:
    """Return the mean squared distance of the logits of mixed images from the mixed logits, 0-d (equation 4).

    mask: (N, 1, H, W) bool, True for the real image. mixed, fake, real: logits (N, 1 + K, H, W); gradients reach all.
    """
    expected = torch.where(mask, at_least_float32(real), at_least_float32(fake))
    return (expected - at_least_float32(mixed)).square().mean()
